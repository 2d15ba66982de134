import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.inventory import Inventory, InventoryError, normalise_bdf, read_cluster

CLUSTER = {
    "cluster": "c1",
    "nodes": {
        "node-01": {
            "gpus": [
                {"index": 0, "uuid": "GPU-a", "pci_bdf": "0000:1B:00.0"},
                {"index": 1, "pci_bdf": "43:00.0"},
            ],
            "ports": [
                {"device": "mlx5_0", "port": 1, "netdev": "ib0", "pci_bdf": "0000:18:00.0",
                 "switch": "leaf-12", "switch_port": "17"},
                {"device": "mlx5_1", "port": 2, "pci_bdf": "0008:01:00.1"},
            ],
            "nvlink_peers": {"0/3": "node-04/2", "1/17": "node-05/0"},
            "nvswitches": [{"index": 3, "pci_bdf": "00000000:86:00.0"}],
        },
        "node-04": {"gpus": [{"index": 2, "uuid": "GPU-peer", "pci_bdf": "0000:52:00.0"}]},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "normal"),
    [
        ("0000:9b:00", "0000:9b:00.0"),
        ("PCI:0000:9b:00", "0000:9b:00.0"),
        ("00000000:9B:00.0", "0000:9b:00.0"),
        ("18:00.0", "0000:18:00.0"),
        ("0018:01:00", "0018:01:00.0"),
        ("0000:CB:00.1", "0000:cb:00.1"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("9b:00", "0000:9b:00.0"),
    ],
)
def test_every_printed_form_of_an_address_is_one_address(printed: str, normal: str) -> None:
    assert normalise_bdf(printed) == normal


@pytest.mark.parametrize(
    "text", ["", "eth0", "0000:9b", "0000:9b:00.8", "0000:9b:00.0 ", "zz:00.0", "PCI:", "1:2:3"]
)
def test_what_is_no_address_is_none(text: str) -> None:
    assert normalise_bdf(text) is None


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_normal_form_is_a_fixed_point(domain: int, bus: int, device: int, function: int) -> None:
    bdf = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert normalise_bdf(bdf) == bdf
    assert normalise_bdf(bdf.upper()) == bdf
    assert normalise_bdf(f"PCI:0000{bdf}") == bdf


def test_lookups_take_any_form_of_an_address() -> None:
    name, nodes = read_cluster(CLUSTER)
    node = nodes["node-01"]
    assert name == "c1"
    for form in ("0000:1b:00", "PCI:0000:1b:00", "00000000:1B:00.0", "1b:00.0"):
        gpu = node.gpu_at(form)
        assert gpu is not None
        assert (gpu.index, gpu.uuid, gpu.bdf) == (0, "GPU-a", "0000:1b:00.0")
    assert node.gpu_at("0000:ff:00") is None
    assert node.gpu_at("nonsense") is None


def test_ports_are_found_by_address_netdev_and_name() -> None:
    node = read_cluster(CLUSTER)[1]["node-01"]
    by_address, by_netdev, by_name = (
        node.port_at("18:00.0"),
        node.port_of_netdev("ib0"),
        node.port_named("mlx5_0"),
    )
    assert by_address is by_netdev is by_name
    assert by_name is not None
    assert (by_name.switch, by_name.switch_port, by_name.entity) == ("leaf-12", "17", "port/mlx5_0/1")
    second = node.port_at("0008:01:00.1")
    assert second is not None
    assert second.entity == "port/mlx5_1/2"
    assert node.port_at("0008:01:00.0") is None
    assert node.port_named("mlx5_1", 1) is None


def test_the_other_end_of_a_link_has_its_uuid_where_the_cluster_is_known() -> None:
    nodes = read_cluster(CLUSTER)[1]
    known = nodes["node-01"].nvlink_peer(0, 3, nodes)
    assert known is not None
    assert (known.node, known.gpu_index, known.gpu_uuid) == ("node-04", 2, "GPU-peer")
    alone = nodes["node-01"].nvlink_peer(0, 3)
    assert alone is not None
    assert (alone.node, alone.gpu_index, alone.gpu_uuid) == ("node-04", 2, None)
    missing = nodes["node-01"].nvlink_peer(1, 17, nodes)
    assert missing is not None
    assert (missing.node, missing.gpu_uuid) == ("node-05", None)
    assert nodes["node-01"].nvlink_peer(0, 4, nodes) is None


def test_what_hangs_on_an_address_is_named() -> None:
    node = read_cluster(CLUSTER)[1]["node-01"]
    assert node.device_behind("0000:1b:00.0") == "GPU-a"
    assert node.device_behind("0000:43:00.0") == "gpu/1"  # its UUID is not known
    assert node.device_behind("0000:18:00.0") == "mlx5_0"
    assert node.device_behind("0000:00:1c.0") is None
    assert node.nvswitches == {"0000:86:00.0": "3"}


@pytest.mark.parametrize(
    ("node", "where"),
    [
        ([], "object"),
        ({"gpus": {}}, "gpus"),
        ({"gpus": [3]}, "gpus[0]"),
        ({"gpus": [{"uuid": "GPU-a"}]}, "gpus[0].index"),
        ({"gpus": [{"index": -1}]}, "gpus[0].index"),
        ({"gpus": [{"index": True}]}, "gpus[0].index"),
        ({"gpus": [{"index": 0, "pci_bdf": "nowhere"}]}, "gpus[0].pci_bdf"),
        ({"gpus": [{"index": 0, "pci_bdf": 7}]}, "gpus[0].pci_bdf"),
        ({"ports": [{"port": 1}]}, "ports[0].device"),
        ({"ports": [{"device": "mlx5_0", "netdev": ["ib0"]}]}, "ports[0].netdev"),
        ({"nvlink_peers": {"0-3": "node-04/2"}}, "nvlink_peers['0-3']"),
        ({"nvlink_peers": {"0/3": "node-04"}}, "nvlink_peers['0/3']"),
        ({"nvlink_peers": {"0/3": 7}}, "nvlink_peers['0/3']"),
        ({"nvlink_peers": {"9" * 5000 + "/3": "node-04/2"}}, "nvlink_peers"),
        ({"nvswitches": [{"index": 1}]}, "nvswitches[0].pci_bdf"),
    ],
)
def test_a_bad_entry_is_named_with_its_place(node: object, where: str) -> None:
    with pytest.raises(InventoryError) as told:
        read_cluster({"cluster": "c1", "nodes": {"node-07": node}})
    assert "nodes.node-07" in str(told.value)
    assert where in str(told.value)


@pytest.mark.parametrize(
    "document", [[], {}, {"cluster": ""}, {"cluster": "c1"}, {"cluster": "c1", "nodes": []}]
)
def test_a_document_that_is_no_cluster_is_refused(document: object) -> None:
    with pytest.raises(InventoryError):
        read_cluster(document)


def test_an_empty_node_has_nothing() -> None:
    node = Inventory.from_dict({})
    assert node.gpus == node.ports == ()
    assert node.gpu_at("0000:1b:00") is None
