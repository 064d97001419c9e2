"""`xlapy simulate`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raises
from xlapy.analysis.simulation.description import machine_from_tables, tables_of_machine
from xlapy.analysis.simulation.machine import Curve
from xlapy.analysis.simulation.mesh import MeshShape, change_mesh, mesh_of, mesh_shapes, parse_mesh
from xlapy.analysis.simulation.presets import H100
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime import Client
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke
from xlapy.tools.files import parse_program
from xlapy.tools.simulate import calibration, links, machines
from xlapy.tools.simulate.compiled import samples
from xlapy.tools.simulate.compiled.kernel_cycles import Core
from xlapy.tools.simulate.this_machine import uncalibrated_machine

SUM = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
PARTITIONED = f"""HloModule layer
{SUM}
ENTRY e {{
  x = f32[64,512] parameter(0)
  w = f32[512,256] parameter(1)
  y = f32[64,256] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{source_file="model.py" source_line=7}}
  ROOT r = f32[64,256] all-reduce(y), channel_id=1, replica_groups=[8,64]<=[512], use_global_device_ids=true,
    to_apply=add, metadata={{source_file="model.py" source_line=9}}
}}"""

GLOBAL = """HloModule mlp, num_partitions=8
ENTRY e {
  x = f32[64,512] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  w = f32[512,256] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  ROOT y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[2,4]<=[8]}
}"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "layer.hlo"
    path.write_text(PARTITIONED)
    return str(path)


def _json(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert invoke(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_module_for_512_devices_is_simulated(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = _json([program, "--machine", "h100"], capsys)
    dot = 2e-6 + max(2 * 64 * 512 * 256 / (0.6 * 495e12), 4 * (64 * 512 + 512 * 256 + 64 * 256) / (0.8 * 3.35e12))
    size = 4 * 64 * 256
    reduce = sum(  # groups of 64: nodes of 8, racks of 4 nodes, 2 racks
        2 * (steps * latency + (members - 1) / members * size / inner / (0.75 * bandwidth))
        for members, steps, inner, latency, bandwidth in (
            (8, 3, 1, 2e-6, 450e9), (4, 2, 8, 6e-6, 50e9), (2, 1, 32, 10e-6, 50e9),
        )
    )  # fmt: skip
    assert found["devices"] == 512
    assert found["seconds"] == pytest.approx(dot + reduce)
    assert found["by_opcode"] == {"all-reduce": pytest.approx(reduce), "dot": pytest.approx(dot)}
    assert list(found["by_source"]) == ["model.py:9", "model.py:7"]
    assert [(row["name"], row["groups"], row["bytes"]) for row in found["collectives"]] == [("r", "8 x 64", size)]
    assert [row["name"] for row in found["critical_path"]] == ["r", "y"]
    assert found["memory"]["arguments"] == 4 * (64 * 512 + 512 * 256)


def test_a_topology_changes_the_time(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = [_json([program, "--machine", "h100", "--topology", text], capsys)["seconds"] for text in ("64", "1x512")]
    assert seconds[0] < seconds[1]


def test_the_tables(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["simulate", program, "--machine", "h100", "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert "layer on h100: 512 devices (16 racks of 4 nodes of 8 devices)" in out
    assert re.search(r"^critical path +what +times +time +share\nr +all-reduce +1 ", out, re.MULTILINE)
    assert out.count("1 others") == 3  # operations, critical path, source lines


def test_the_timeline_and_the_page(program: str, tmp_path: Path) -> None:
    trace, page = tmp_path / "t.json", tmp_path / "t.html"
    assert invoke(["simulate", program, "--machine", "h100", "--perfetto", str(trace), "--html", str(page)]) == 0
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["tid"]) for event in events] == [("y: dot", 2), ("r: all-reduce", 3)]
    assert events[1]["ts"] == pytest.approx(events[0]["dur"], abs=1e-3) and events[1]["args"]["groups"] == "8 x 64"
    text = page.read_text("ascii")
    assert text.count("<rect") == 2 and "<td>model.py:9</td>" in text and "<script" not in text


def test_names_on_the_page_are_no_markup(tmp_path: Path) -> None:
    page, path = tmp_path / "t.html", tmp_path / "m.hlo"
    path.write_text(PARTITIONED.replace("model.py", "<b>&"))
    assert invoke(["simulate", str(path), "--machine", "h100", "--html", str(page)]) == 0
    assert "<b>" not in page.read_text() and "&lt;b&gt;&amp;:9" in page.read_text()


def test_a_program_with_shardings_is_partitioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mlp.hlo"
    path.write_text(GLOBAL)
    found = _json([str(path), "--machine", "h100"], capsys)
    assert found["devices"] == 8 and found["memory"]["arguments"] == 4 * (32 * 512 + 512 * 64)
    # The product of local blocks needs no collective.
    assert found["collectives"] == [] and found["by_opcode"].keys() == {"dot"}


def test_a_sweep_partitions_for_each_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mlp.hlo"
    path.write_text(GLOBAL)
    found = _json([str(path), "--machine", "h100", "--mesh", "data=2,model=4", "--sweep"], capsys)
    assert {row["mesh"]: row["memory"]["arguments"] for row in found} == {
        f"data={data},model={8 // data}": 4 * (64 // data * 512 + 512 * 256 * data // 8) for data in (1, 2, 4, 8)
    }
    more = _json([str(path), "--machine", "h100", "--mesh", "data=2,model=4", "--sweep", "--devices", "16"], capsys)
    assert [row["mesh"] for row in more] == [f"data={d},model={16 // d}" for d in (1, 2, 4, 8, 16)]
    assert {row["devices"] for row in more} == {16}
    assert invoke(["simulate", str(path), "--machine", "h100", "--mesh", "data=2,model=4", "--sweep"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FILE"),
        (["m.hlo", "--sweep", "--html", "p.html"], "--sweep|sweep"),
        (["m.hlo", "--mesh", "a=2"], "--sweep"),
        (["m.hlo", "--calibrate"], "--calibrate"),
        (["m.hlo", "--custom-call", "f"], "TARGET=SECONDS"),
        (["m.hlo", "--custom-call", "f=-1"], "TARGET=SECONDS"),
        (["m.hlo", "--custom-call", "f=nan"], "TARGET=SECONDS"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["simulate", *arguments]) == 2
    assert re.search(words, capsys.readouterr().err)


# -- meshes


def test_shardings_keep_their_axes() -> None:
    module = parse_hlo(GLOBAL)
    change_mesh(module, MeshShape(("data", "model"), (2, 4)), MeshShape(("data", "model"), (4, 2)))
    found = [str(one.sharding) for one in module.entry_computation]
    assert found == [
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[4,2]<=[8]}",
    ]
    assert module.config.num_partitions == 8


def test_an_axis_of_one_device_splits_nothing() -> None:
    module = parse_hlo(GLOBAL)
    change_mesh(module, parse_mesh("data=2,model=4"), parse_mesh("data=1,model=8"))
    found = [str(one.sharding) for one in module.entry_computation]
    assert found == ["{replicated}", "{devices=[1,8]<=[8]}", "{devices=[1,8]<=[8]}"]


def test_shardings_name_their_mesh() -> None:
    module = parse_program(
        "m.mlir",
        b"""module @m attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func @main(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>})
      -> tensor<64x16xf32> {
    %y = stablehlo.negate %x : tensor<64x16xf32>
    return %y : tensor<64x16xf32>
  }
}""",
    )
    mesh = mesh_of(module)
    assert mesh == MeshShape(("data", "model"), (2, 4))
    change_mesh(module, mesh, MeshShape(("data", "model"), (8, 1)))
    assert "mesh['data'=8,'model'=1]" in str(module.entry_computation.parameters[0].sharding)


def test_meshes_of_a_number_of_devices() -> None:
    assert [str(mesh) for mesh in mesh_shapes(parse_mesh("a=2,b=2"), 4)] == ["a=1,b=4", "a=2,b=2", "a=4,b=1"]


@pytest.mark.parametrize("text", ["", "a", "a=0", "a=2,a=3", "a=2,", "a=1,b=1,c=1,d=1,e=1,f=1", "a=-1"])
def test_malformed_meshes(text: str) -> None:
    with raises(InvalidArgumentError, codes.MESH_AXES, repr(text)):
        parse_mesh(text)


# -- descriptions of machines


def test_a_description_survives_a_file() -> None:
    assert machine_from_tables(json.loads(json.dumps(tables_of_machine(H100))), "h100") == H100


def _tables(**changes: Any) -> dict[str, Any]:
    return {**tables_of_machine(H100), **changes}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([], "not a table"),
        ({"name": "x"}, "levels is missing"),
        (_tables(speed=1), "no field speed"),
        (_tables(memory=-1), "memory is a number of at least 0"),
        (_tables(memory=True), "memory"),
        (_tables(levels=[]), "at least one level"),
        (_tables(levels=[{"name": "n", "size": 0, "latency": 0, "bandwidth": 0}]), "levels[0].bandwidth is a positive"),
        (_tables(levels=[{"name": "n", "size": 2, "latency": 0, "bandwidth": 1, "algorithm": "tree"}]), "'tree'"),
        (_tables(rates={**tables_of_machine(H100)["rates"], "products": {}}), "rates.products.default is missing"),
        (_tables(rates={**tables_of_machine(H100)["rates"], "bandwidth": [[2, 1], [1, 1]]}), "ascend"),
        (_tables(rates={**tables_of_machine(H100)["rates"], "bandwidth": float("inf")}), "rates.bandwidth"),
    ],
)
def test_malformed_descriptions(tables: object, words: str) -> None:
    with raises(InvalidArgumentError, codes.MACHINE_DESCRIPTION, "m.toml: ", words):
        machine_from_tables(tables, "m.toml")


@pytest.mark.parametrize(("name", "text"), [("m.toml", "name ="), ("m.json", "{"), ("n.json", "[" * 100_000)])
def test_files_that_are_not_of_the_format(
    name: str, text: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert invoke(["simulate", program, "--machine", str(tmp_path / name)]) == 1
    assert f"[{codes.MACHINE_DESCRIPTION}]" in capsys.readouterr().err


def test_this_machine_is_described_from_its_roofline(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roofline = Roofline(2, {"f32": 1e11}, (Bandwidth(1 << 14, 1e11, 1e11, 1e11), Bandwidth(1 << 26, 2e10, 2e10, 2e10)))
    machine = uncalibrated_machine(Machine("test", roofline, roofline))
    assert machine.processors == 2 and machine.rates.bandwidth == Curve(((1 << 14, 5e10), (1 << 26, 1e10)))
    monkeypatch.setattr(machines, "machine_roofline", lambda: Machine("test", roofline, roofline))
    monkeypatch.setattr(machines, "calibrated_path", lambda: tmp_path / "none.json")
    assert invoke(["simulate", program]) == 0
    assert "layer on test: 512 devices (512 devices)" in capsys.readouterr().out


def test_calibration_writes_what_it_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With made-up times: a device adds 1 us to a launch, 2 us to a meeting in a loop, 3 us to one after another."""
    roofline = Roofline(2, {"f32": 1e11}, (Bandwidth(1 << 14, 1e11, 1e11, 1e11),))
    monkeypatch.setattr(calibration, "machine_roofline", lambda anew: Machine("test", roofline, roofline))

    def fake_step(text: str, devices: int) -> float:
        return devices * (1e-6 + 3e-6 * text.count(" all-reduce("))

    def fake_iteration(shape: str, body: str, devices: int, expected: float, before: str = "") -> float:
        return devices * 2e-6 if "tanh" not in body else devices * (5e-6 + 4e-6 * (devices > 1))

    monkeypatch.setattr(calibration, "step_seconds", fake_step)
    monkeypatch.setattr(calibration, "iteration_seconds", fake_iteration)
    speeds = {"loops": Curve.constant(2.0)}
    monkeypatch.setattr(calibration, "measured_core", lambda: Core(9.0, 8.0, 400.0))
    monkeypatch.setattr(calibration, "measured_speeds", lambda rates, say: speeds)
    monkeypatch.setattr(calibration, "measured_overlap", lambda rates: 0.5)
    path = tmp_path / "this.json"
    assert invoke(["simulate", "--calibrate", "--machine", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"wrote the description of test to {path}" in out and "launch: 1 us per device" in out
    found = machines.find_machine(str(path))
    rates = found.compiled
    assert rates is not None and found.processors == 2 and found.launch == pytest.approx(1e-6)
    assert (rates.division, rates.square_root, rates.window, rates.overlap) == (9.0, 8.0, 400.0, 0.5)
    assert rates.meeting == pytest.approx(2e-6) and rates.speeds == speeds
    assert [1 / rates.line.at(count) for count in (2, 4, 8)] == pytest.approx([6e-6, 12e-6, 24e-6])
    assert [1 / rates.waiting.at(count) for count in (2, 4, 8)] == pytest.approx([8e-6, 16e-6, 32e-6])
    assert machines.calibrated_path().name == "simulated-machine.json"


@pytest.mark.parametrize(("busy", "warns"), [(0.2, True), (0.01, False)])
def test_calibration_says_that_others_used_the_processors(
    busy: float, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 10 s, all processes compute for 4 s plus `busy` of the processors; this one for 4 s."""
    count = len(os.sched_getaffinity(0))
    for name, values in {
        "_clock": [0.0, 10.0], "_own_seconds": [1.0, 5.0], "_busy_seconds": [100.0, 104.0 + busy * 10 * count],
    }.items():  # fmt: skip
        monkeypatch.setattr(calibration, name, iter(values).__next__)
    text = calibration.Disturbance().warning()
    assert bool(text) is warns and (not warns or "20% of the processors" in text)


def test_samples_are_timed_and_classified() -> None:
    """A product and a sort of rows, each with the size on which its speed depends."""
    (product,) = samples.measured_kernels(samples._dot("f32", 64, 64, 64))
    assert product.kind.endswith("gemm") and product.length == 0 and 5e-7 < product.seconds < 1
    kinds = {(sample.kind, sample.length) for sample in samples.measured_kernels(samples._sort(4, 256))}
    assert ("sort", 256.0) in kinds


def test_links_between_processes_are_the_outermost_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes 5 us, and a byte 1 ns more: 1e9 bytes per second at every size."""
    monkeypatch.setattr(links, "_permute_seconds", lambda client, size: 5e-6 + 1e-9 * (size - links.SIZES[0]))
    said: list[str] = []
    found = links.with_measured_links(H100, said.append)
    assert found.levels[:-1] == H100.levels[:-1] and found.rates == H100.rates
    link = found.levels[-1].link
    assert link.latency == pytest.approx(5e-6) and link.bandwidth.at(1 << 10) == pytest.approx(1e9, rel=0.01)
    assert [size for size, _ in link.bandwidth.points] == list(links.SIZES[1:]) and "5 us a step" in said[0]


def test_the_program_that_measures_links_runs() -> None:
    """On one device, which sends to itself."""
    assert 0 < links._permute_seconds(Client("cpu", devices=1), 1 << 10) < 1
