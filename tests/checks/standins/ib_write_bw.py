"""Talks and prints as perftest does: the server waits on a TCP port, the client comes, both print a table."""

from __future__ import annotations

import socket
import sys

from standin import common_modes, faults, note

given = faults("ib_write_bw")
arguments = sys.argv[1:]
cuda = next((a for a in arguments if a.startswith("--use_cuda")), None)
mode = given.get("mode")
if "--help" in arguments:
    sys.stdout.write("Usage:\n  ib_write_bw            start a server and wait for connection\n")
    if given.get("cuda", True):
        sys.stdout.write(
            "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
        )
    sys.exit(0)
device = arguments[arguments.index("-d") + 1]
number = int(arguments[arguments.index("-p") + 1])
client = arguments[-1] == "127.0.0.1"
note(f"{'client' if client else 'server'} {device} {cuda or 'host'}")
if device in given.get("unusable", []):
    sys.stderr.write(f" IB device {device} not found\n Unable to find the Infiniband/RoCE device\n")
    sys.exit(1)
if cuda and given.get("cuda_broken"):
    sys.stderr.write("Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n")
    sys.exit(1)
if mode == "deaf" and not client:
    common_modes("hang", "")
gbit_s = given.get("gbit_s", 392.4) * (0.5 if device in given.get("slow", []) else 1.0)
old = mode == "mib"
unit, value = ("MB/sec", gbit_s * 1e9 / 8 / 2**20) if old else ("Gb/sec", gbit_s)
rule = "-" * 87
text = "\n".join([
    rule, "                    RDMA_Write BW Test", f" Dual-port       : OFF\t\tDevice         : {device}",
    " Number of qps   : 1\t\tTransport type : IB", " Connection type : RC\t\tUsing SRQ      : OFF",
    " local address: LID 0x01 QPN 0x0127 PSN 0x8a0d3b RKey 0x1fffbd VAddr 0x007f2c9a400000", rule,
    f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]",
    f" 8388608    29240            0.00               {value:.2f} \t\t   0.005847", rule, "",
])  # fmt: skip
if client:
    with socket.create_connection(("127.0.0.1", number), timeout=10) as connection:
        connection.sendall(b"0001:0127")
        connection.recv(16)
    common_modes(mode, text)
else:
    sys.stdout.write("\n************************************\n* Waiting for client to connect... *\n")
    sys.stdout.flush()
    with socket.create_server(("127.0.0.1", number)) as listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(16)
            connection.sendall(b"0001:0128")
sys.stdout.write(text)
