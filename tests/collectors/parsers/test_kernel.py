"""Lines of the kernel that end jobs: each shape, each field, and the noise beside them."""

# ruff: noqa: E501 - lines of logs are as long as they are

from typing import Any

import pytest

from collectors.parsers.kernel import shapes
from collectors.parsers.mlx5 import shapes as card_shapes
from tests.collectors.parsers.builders import UUID_1, at, events_of, nothing, only, parser, record
from topics.events import to_dict

LINES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("kernel.panic", "panic", "Kernel panic - not syncing: Fatal exception in interrupt", {}),
    ("kernel.hard_lockup", "hard_lockup", "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12", {}),
    ("kernel.hard_lockup", "hard_lockup", "watchdog: Watchdog detected hard LOCKUP on cpu 3", {}),
    ("kernel.soft_lockup", "soft_lockup", "watchdog: BUG: soft lockup - CPU#37 stuck for 26s! [python3:48123]",
     {"process": "python3", "pid": 48123}),
    ("kernel.soft_lockup", "soft_lockup", "NMI watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:77]",
     {"process": "kworker/1:2", "pid": 77}),
    ("kernel.rcu_stall", "soft_lockup", "rcu: INFO: rcu_sched self-detected stall on CPU", {}),
    ("kernel.rcu_stall", "soft_lockup", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", {}),
    ("kernel.rcu_stall", "soft_lockup", "INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-.... }", {}),
    ("kernel.hung_task", "other", "INFO: task python3:48123 blocked for more than 120 seconds.",
     {"process": "python3", "pid": 48123}),
    ("kernel.hung_task", "other", "INFO: task kworker/u8:1:9 blocked on a mutex likely owned by task x for more than 120 seconds.",
     {"process": "kworker/u8:1", "pid": 9}),
    ("kernel.oops", "other", "BUG: unable to handle page fault for address: ffffffffc0a0b0c0", {}),
    ("kernel.oops", "other", "Oops: 0002 [#1] PREEMPT SMP NOPTI", {}),
    ("kernel.oops", "other", "general protection fault, probably for non-canonical address 0xdead: 0000 [#1]", {}),
    ("mce.exception", "mce", "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400", {"device": "12"}),
    ("mce.exception", "mce", "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: bc00000000800400", {"device": "12"}),
    ("mce.fatal", "mce", "mce: [Hardware Error]: Machine check: Processor context corrupt", {}),
    ("mce.fatal", "mce", "mce: Uncorrected hardware memory error in user-access at 3f1c4b2000", {}),
    ("mce.killed", "mce", "MCE: Killing python3:48123 due to hardware memory corruption fault at 7f1c4b2000",
     {"process": "python3", "pid": 48123}),
    ("mce.killed", "mce", "Memory failure: 0x3f1c4b2: Killing python3:48123 due to hardware memory corruption",
     {"process": "python3", "pid": 48123}),
    ("edac.uncorrected", "mce", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0", {"device": "MC0"}),
    ("ghes.uncorrected", "mce", "{3}[Hardware Error]: event severity: fatal", {}),
    ("ghes.uncorrected", "mce", "{3}[Hardware Error]: event severity: recoverable", {}),
    ("nfs.not_responding", "storage_stall", "nfs: server nas-01.cluster not responding, still trying", {"server": "nas-01.cluster"}),
    ("nfs.not_responding", "storage_stall", "nfs: server 10.2.0.9 not responding, timed out", {"server": "10.2.0.9"}),
    ("nfs.timed_out", "storage_stall", "NFS: server nas-01 error: fileid changed", {"server": "nas-01"}),
    ("nfs.server_ok", "other", "nfs: server nas-01.cluster OK", {"server": "nas-01.cluster"}),
    ("nfs.lock_server_gone", "storage_stall", "lockd: server nas-01 not responding, still trying", {"server": "nas-01"}),
    ("nfs.state_manager_failed", "storage_stall",
     "NFS: state manager: lease expired failed on NFSv4 server nas-01 with error 5", {"server": "nas-01"}),
    ("nfs.rpc_timed_out", "storage_stall", "RPC: server nas-01 requires stronger authentication, call timed out",
     {"server": "nas-01"}),
    ("lustre.evicted", "storage_stall",
     "LustreError: 167-0: scratch-OST0004-osc-ffff8f2c: This client was evicted by scratch-OST0004; in progress operations "
     "using this service will fail.", {"server": "scratch", "device": "OST0004"}),
    ("lustre.connection_lost", "storage_stall",
     "Lustre: scratch-OST0004-osc-ffff8f2c: Connection to scratch-OST0004 (at 10.2.0.5@o2ib) was lost; in progress operations "
     "using this service will wait for recovery to complete", {"server": "scratch", "device": "OST0004"}),
    ("lustre.connection_restored", "other",
     "Lustre: scratch-OST0004-osc-ffff8f2c: Connection restored to scratch-OST0004 (at 10.2.0.5@o2ib)",
     {"server": "scratch", "device": "OST0004"}),
    ("lustre.operation_failed", "storage_stall",
     "LustreError: 11-0: scratch-OST0004-osc-ffff8f2c: operation ost_write to node 10.2.0.5@o2ib failed: rc = -107",
     {"server": "scratch", "device": "OST0004"}),
    ("lustre.request_timed_out", "storage_stall",
     "Lustre: 4213:0:(client.c:2305:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: "
     "[sent 1773453600/real 1773453600] req@ffff8f x17/t0(0) o400->scratch-MDT0000-mdc-ffff8f@10.2.0.4@o2ib:12/10",
     {"server": "scratch", "device": "MDT0000"}),
    ("iscsi.connection_error", "storage_stall", " connection1:0: detected conn error (1020)", {"device": "connection1:0"}),
    ("iscsi.connection_error", "storage_stall", "connection1:0: ping timeout of 5 secs expired, recv timeout 5",
     {"device": "connection1:0"}),
    ("iscsi.session_timed_out", "storage_stall", " session1: session recovery timed out after 120 secs", {"device": "session1"}),
    ("nvme.timeout", "storage_stall", "nvme nvme0: I/O 12 QID 3 timeout, aborting", {"device": "nvme0"}),
    ("nvme.timeout", "storage_stall", "nvme nvme1: I/O tag 12 (1034) opcode 0x2 (I/O Cmd) QID 3 timeout, reset controller",
     {"device": "nvme1"}),
    ("nvme.controller_down", "storage_stall", "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
     {"device": "nvme0"}),
    ("nvme.controller_down", "storage_stall", "nvme nvme4: Reconnecting in 10 seconds...", {"device": "nvme4"}),
    ("block.io_error", "filesystem", "blk_update_request: I/O error, dev nvme1n1, sector 2048 op 0x0:(READ)", {"device": "nvme1n1"}),
    ("block.io_error", "filesystem", "critical medium error, dev sda, sector 99 op 0x0:(READ)", {"device": "sda"}),
    ("block.buffer_io_error", "filesystem", "Buffer I/O error on dev dm-0, logical block 7, lost async page write", {"device": "dm-0"}),
    ("ext4.error", "filesystem", "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1463: inode #2: comm python3", {"device": "nvme0n1p2"}),
    ("ext4.read_only", "filesystem", "EXT4-fs (nvme0n1p2): Remounting filesystem read-only", {"device": "nvme0n1p2"}),
    ("jbd2.aborted", "filesystem", "Aborting journal on device nvme0n1p2-8.", {"device": "nvme0n1p2"}),
    ("jbd2.aborted", "filesystem", "JBD2: Detected IO errors while flushing file data on dm-0-8", {"device": "dm-0"}),
    ("xfs.error", "filesystem", "XFS (nvme1n1): log I/O error -5", {"device": "nvme1n1"}),
    ("xfs.error", "filesystem", "XFS (dm-0): metadata I/O error in \"xfs_buf_ioend\" at daddr 0x8", {"device": "dm-0"}),
    ("xfs.error", "filesystem", "XFS (dm-0): Filesystem has been shut down due to log error (0x2).", {"device": "dm-0"}),
    ("xfs.error", "filesystem", "XFS (dm-0): Metadata corruption detected at xfs_agf_read_verify", {"device": "dm-0"}),
    ("btrfs.error", "filesystem", "BTRFS error (device sda1): bdev /dev/sda1 errs: wr 1, rd 0", {"device": "sda1"}),
    ("thermal.shutdown", "other", "thermal thermal_zone0: critical temperature reached (105 C), shutting down", {"device": "thermal_zone0"}),
    ("thermal.shutdown", "other", "thermal thermal_zone2: x86_pkg_temp: critical temperature reached, shutting down",
     {"device": "thermal_zone2"}),
    ("thermal.cpu_throttled", "other", "mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)", {}),
    ("thermal.cpu_throttled", "other", "CPU3: Package temperature is above threshold, cpu clock is throttled", {}),
    ("power.off", "other", "reboot: Power down", {}),
    ("power.off", "other", "reboot: System halted", {}),
    ("power.off", "other", "ACPI: PM: Preparing to enter system sleep state S5", {}),
    ("power.off", "other", "acpi_power_off called", {}),
    ("power.restart", "other", "reboot: Restarting system", {}),
    ("power.restart", "other", "sysrq: Trigger a crash", {}),
    ("power.restart", "other", "SysRq : Resetting", {}),
    ("power.shutdown_began", "other", "systemd-shutdown[1]: Sending SIGTERM to remaining processes...", {}),
    ("power.shutdown_began", "other", "systemd-shutdown[1]: Syncing filesystems and block devices.", {}),
    ("power.key_pressed", "other", "systemd-logind[900]: Power key pressed short.", {}),
    ("process.segfault", "other", "python3[48123]: segfault at 0 ip 00007f3 sp 00007ff error 4 in libnccl.so.2[7f3+1000]",
     {"process": "python3", "pid": 48123}),
    ("process.trap", "other", "traps: python3[48123] general protection fault ip:7f3 sp:7ff error:0 in libcuda.so",
     {"process": "python3", "pid": 48123}),
    ("process.trap", "other", "traps: python3[48123] trap invalid opcode ip:7f3 sp:7ff error:0", {"process": "python3", "pid": 48123}),
    ("pcie.hotplug_link_down", "other", "pcieport 0000:1a:01.0: pciehp: Slot(5): Link Down", {"device": "0000:1a:01.0"}),
    ("pcie.hotplug_link_down", "other", "pcieport 0000:1a:01.0: pciehp: Slot(5-1): Card not present", {"device": "0000:1a:01.0"}),
    ("nvidia_peermem.invalid_context", "other",
     "nvidia-peermem nv_mem_client_init:450 ERROR detected invalid context, skipping further processing", {}),
    ("nvrm.init_failed", "other", "NVRM: GPU 0000:43:00.0: RmInitAdapter failed! (0x26:0x56:1474)", {"device": "0000:43:00.0"}),
    ("nvrm.api_mismatch", "other", "NVRM: API mismatch: the client has the version 570.124.06, but", {}),
    ("nvrm.nvlink_training", "other",
     "NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!", {}),
    ("nvrm.reset_required", "other",
     "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x0000005E) returned", {}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "category", "line", "fields"), LINES)
def test_each_line_is_an_event(code: str, category: str, line: str, fields: dict[str, Any]) -> None:
    event = only(line)
    data = to_dict(event)["data"]
    assert (event.kind, data["code"], data["category"], data["message"]) == ("kernel", code, category, line)
    assert {key: data[key] for key in ("device", "process", "pid", "server") if key in data} == fields
    assert data["written_by"] == "kernel"


def test_every_shape_has_a_line_here() -> None:
    assert {shape.code for shape in shapes()} == {code for code, *_ in LINES}
    assert len(shapes()) == 47
    assert len(card_shapes()) == 8


@pytest.mark.parametrize(
    "line",
    [
        "Linux version 6.8.0-hpc (build@c1) #66-SMP PREEMPT_DYNAMIC",
        "EXT4-fs (nvme0n1p2): mounted filesystem a3e49917 r/w with ordered data mode. Quota mode: none.",
        "EXT4-fs (nvme1n1p1): re-mounted 0fd1beef-9d84-44d8-0bfd-59577e460679 r/w. Quota mode: none.",
        "EDAC MC2: 1 CE memory scrubbing error on CPU_SrcID#0_Ha#0_Chan#2_DIMM#0 (channel:3 slot:0)",
        "mce: [Hardware Error]: Machine check events logged",
        "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: 8c00004000010091",  # corrected
        "{1}[Hardware Error]: event severity: corrected",
        "perf: interrupt took too long (2884 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
        "TCP: request_sock_TCP: Possible SYN flooding on port 29400. Sending cookies.",
        "docker0: port 1(veth70e6747) entered forwarding state",
        "audit: type=1400 audit(1773454200.113:356): apparmor=\"ALLOWED\" operation=\"open\" profile=\"telemetry-agent\"",
        "audit: Kernel panic - not syncing: quoted",
        "nvidia: module license taints kernel.",
        "nvme nvme0: 64/0/0 default/read/poll queues",
        "XFS (nvme1n1): Ending clean mount",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build",
        "systemd[1]: Started nvidia-fabricmanager.service - fabric manager.",
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "oom_reaper: reaped process 48123 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    ],
)  # fmt: skip
def test_noise_is_nothing(line: str) -> None:
    assert nothing(line)


def test_a_gpu_that_can_not_be_started_is_named() -> None:
    assert only("NVRM: GPU 0000:43:00.0: RmInitAdapter failed! (0x26:0x56:1474)").subject == f"gpu/{UUID_1}"


# -- the OOM killer -------------------------------------------------------------------------------------

SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
    "oom_memcg=/system.slice/slurmstepd.scope/job_6159,"
    "task_memcg=/system.slice/slurmstepd.scope/job_6159/step_0/user/task_9,task=python3,pid=45270,uid=1021"
)
VICTIM = (
    "Memory cgroup out of memory: Killed process 45270 (python3) total-vm:412331204kB, anon-rss:251330120kB, "
    "file-rss:90112kB, shmem-rss:4194304kB, UID:1021 pgtables:530012kB oom_score_adj:0"
)


def test_the_lines_of_a_kill_are_one_event_with_the_victims_cgroup() -> None:
    event = only(
        [
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            SUMMARY,
            VICTIM,
            "oom_reaper: reaped process 45270 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        ]
    )
    data = event.data
    assert (data.category, data.code, data.process, data.pid) == ("oom_kill", "oom.cgroup", "python3", 45270)
    assert data.cgroup == "/system.slice/slurmstepd.scope/job_6159/step_0/user/task_9"
    assert (data.message, event.time) == (VICTIM, at(0.002))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (VICTIM, "oom.cgroup"),
        ("Out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB", "oom.node"),
        ("Out of memory (oom_kill_allocating_task): Killed process 77 (python3) total-vm:1kB", "oom.node"),
        ("Out of memory: Kill process 77 (python3) score 905 or sacrifice child", "oom.node"),
        ("Memory cgroup out of memory: Kill process 77 (python3) score 905 or sacrifice child", "oom.cgroup"),
        ("Killed process 77, UID 1021, (python3) total-vm:1kB", "oom.node"),
    ],
)
def test_each_wording_of_a_kill(line: str, code: str) -> None:
    event = only(line)
    assert (event.data.category, event.data.code, event.data.process) == ("oom_kill", code, "python3")


def test_the_two_lines_of_old_kernels_are_one_kill() -> None:
    lines = [
        "Out of memory: Kill process 77 (python3) score 905 or sacrifice child",
        "Killed process 77 (python3) total-vm:1kB, anon-rss:1kB",
    ]
    assert only(lines).data.pid == 77


def test_a_summary_whose_victim_line_is_missing_speaks() -> None:
    reading = parser()
    assert reading.feed(record(SUMMARY, 0, seq=1)) == []
    waiting = reading.oldest_pending()
    assert waiting is not None
    assert waiting.seq == 1
    assert reading.flush(at(4)) == []
    assert [event.data.pid for event in reading.flush(at(6))] == [45270]


def test_two_kills_are_two_events() -> None:
    other = SUMMARY.replace("45270", "45271")
    events = events_of(
        [SUMMARY, VICTIM, other, VICTIM.replace("45270", "45271"), SUMMARY.replace("45270", "9")]
    )
    assert [(event.data.pid, event.data.cgroup is not None) for event in events] == [
        (45270, True),
        (45271, True),
        (9, True),
    ]


def test_a_summary_is_not_laid_at_another_victims_door() -> None:
    events = events_of([SUMMARY.replace("45270", "9"), VICTIM])
    assert [(event.data.pid, event.data.cgroup is None) for event in events] == [(9, False), (45270, True)]


def test_two_kills_at_once_without_summaries_are_two_events() -> None:
    events = events_of([VICTIM, VICTIM.replace("45270", "45271")])
    assert [event.data.pid for event in events] == [45270, 45271]
