"""Target files: complete, consistent, sourced; unknown and malformed ones are one line; the local CPU is read and measured once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators import local_cpu, targets
from evaluators.errors import TargetError

SHIPPED = {"cpu-x86-64", "nvidia-a100", "nvidia-h100", "nvidia-h200", "nvidia-b200", "amd-mi300x", "amd-mi350x"}
GPUS = sorted(SHIPPED - {"cpu-x86-64"})
GOOD = (targets.root() / "nvidia-a100.yaml").read_text()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, with a bandwidth already on record so that only one test measures."""
    cpu = local_cpu.detect()
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "bandwidth.json").write_text(
        json.dumps({f"{cpu.name} x{cpu.cores}": {"copy_gbs": 20.0, "read_gbs": 30.0, "taken": 100, "at": 0.0}})
    )
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(folder))
    return folder


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> object:
    """Set the name that the local GPU reports."""

    def name(text: str | None) -> None:
        monkeypatch.setattr(targets, "local_gpu", lambda: text)

    name(None)
    return name


def test_the_seven_targets_are_there() -> None:
    assert set(targets.names()) >= SHIPPED


@pytest.mark.parametrize("name", GPUS)
def test_figures_are_complete_and_plausible(name: str) -> None:
    target = targets.load(name)
    assert target.name == target.families[0] == name
    assert target.families[-2:] == (target.vendor, "gpu")
    assert len(target.families) == 4
    assert 1000 < target.memory_bandwidth_gbs < 20_000
    assert target.peak_tflops["bfloat16"] == target.peak_tflops["float16"] > 4 * target.peak_tflops["float32"]
    assert target.sources
    assert target.device == "cuda"
    triton = target.toolchain["triton"]
    assert triton["warp_size"] == target.warp_size == {"nvidia": 32, "amd": 64}[target.vendor]
    assert triton["backend"] == {"nvidia": "cuda", "amd": "hip"}[target.vendor]
    assert str(triton["arch"]) in target.architecture


@pytest.mark.parametrize(
    ("arch", "limit"),
    [("sm_80", 166_912), ("sm_90", 232_448), ("sm_100", 232_448), ("gfx942", 65_536), ("gfx950", 163_840)],
)
def test_shared_memory_per_block(arch: str, limit: int) -> None:
    of_arch = [t for t in map(targets.load, GPUS) if t.architecture == arch]
    assert of_arch
    assert {t.shared_memory_bytes for t in of_arch} == {limit}


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100"),
        ("NVIDIA B200", "nvidia-b200"),
        ("AMD Instinct MI300X", "amd-mi300x"),
        ("AMD Instinct MI350X", "amd-mi350x"),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GB200", None),
        ("NVIDIA A100-SXM4-40GB", None),
        (None, None),
    ],
)
@pytest.mark.skipif(not local_cpu.is_x86(), reason="falls back to the x86-64 target")
def test_auto_is_the_local_gpu_where_a_target_describes_it(
    device: object, reported: str | None, name: str | None
) -> None:
    device(reported)  # type: ignore[operator]
    chosen = targets.load("auto")
    assert chosen.name == (name or "cpu-x86-64")
    assert chosen.present
    assert [n for n in GPUS if targets.load(n).present] == ([name] if name else [])


@pytest.mark.skipif(not local_cpu.is_x86(), reason="needs an x86-64")
def test_the_local_cpu_is_described_from_this_machine() -> None:
    target = targets.load("cpu-x86-64")
    assert target.present
    assert target.device == "cpu"
    assert target.memory_bandwidth_gbs == 30.0
    assert target.compute_units >= 1
    assert target.memory_bytes > 1 << 28
    assert 0 < target.peak_tflops["float64"] < target.peak_tflops["float32"] <= target.peak_tflops["bfloat16"]


def test_bandwidth_is_the_best_of_a_few_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement on a busy machine is too low, and a roofline from it would end searches early."""
    cpu = local_cpu.detect()
    cache = tmp_path / "bandwidth.json"
    figures = iter([(5.0, 9.0), (8.0, 7.0), (6.0, 6.0)])
    monkeypatch.setattr(
        local_cpu, "_measure", lambda _: dict(zip(("copy_gbs", "read_gbs"), next(figures), strict=True))
    )
    now = [1e9]
    monkeypatch.setattr(local_cpu.time, "time", lambda: now[0])
    seen = []
    for wait in (0, 60, 700, 700):
        now[0] += wait
        seen.append(tuple(local_cpu.bandwidth(cpu, cache).values()))
    assert seen == [(5.0, 9.0), (5.0, 9.0), (8.0, 9.0), (8.0, 9.0)]


def test_no_bound_denies_what_a_kernel_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured while the machine was busy, the bandwidth may be less than a kernel shows later; what caches hold shows nothing."""
    cpu = replace(local_cpu.detect(), caches={"l3": 100 << 20})
    cache = tmp_path / "bandwidth.json"
    local_cpu.witness(cpu, cache, 10**9, 10.0)  # nothing measured yet: nothing to correct
    monkeypatch.setattr(local_cpu, "_measure", lambda _: {"copy_gbs": 20.0, "read_gbs": 25.0})
    plain = {"copy_gbs": 20.0, "read_gbs": 25.0}
    assert local_cpu.bandwidth(cpu, cache) == plain
    local_cpu.witness(cpu, cache, 10**9, 50.0)  # 20 GB/s
    local_cpu.witness(cpu, cache, 100 << 20, 1.0)  # 105 GB/s, from the cache
    assert local_cpu.bandwidth(cpu, cache) == plain
    local_cpu.witness(cpu, cache, 10**9, 10.0)  # 100 GB/s: the kernel did not do its work
    assert local_cpu.bandwidth(cpu, cache) == plain
    local_cpu.witness(cpu, cache, 10**9, 25.0)
    local_cpu.witness(cpu, cache, 10**9, 30.0)
    assert local_cpu.bandwidth(cpu, cache) == {**plain, "kernel_gbs": 40.0}


def test_bandwidth_is_kept_per_processor(tmp_path: Path) -> None:
    cpu = replace(local_cpu.detect(), memory_bytes=256 << 20)  # small arrays: the figure itself is not looked at
    cache = tmp_path / "new" / "bandwidth.json"
    first = local_cpu.bandwidth(cpu, cache)
    assert min(first.values()) > 0
    assert local_cpu.bandwidth(cpu, cache) == first
    other = replace(cpu, name="another")
    local_cpu.bandwidth(other, cache)
    assert set(json.loads(cache.read_text())) == {f"{cpu.name} x{cpu.cores}", f"another x{cpu.cores}"}
    cache.write_text("{")
    assert set(local_cpu.bandwidth(cpu, cache)) == {"copy_gbs", "read_gbs"}


def test_unknown_target_lists_what_there_is() -> None:
    with pytest.raises(TargetError) as caught:
        targets.load("nvidia-h20")
    assert (
        str(caught.value)
        == f"unknown target 'nvidia-h20'; did you mean 'nvidia-h200'? Known are {', '.join(targets.names())}."
    )


def test_a_new_target_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: object) -> None:
    (tmp_path / "acme-1.yaml").write_text(GOOD.replace("A100-SXM4-80GB", "Acme One"))
    monkeypatch.setattr(targets, "root", lambda: tmp_path)
    device("Acme One")  # type: ignore[operator]
    assert targets.names() == ("acme-1",)
    assert targets.load("auto").name == "acme-1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("warp_size:", "wrap_size:"), "FILE: wrap_size: unknown key; did you mean 'warp_size'?"),
        (
            ("memory_bandwidth_gbs: 2039", "memory_bandwidth_gbs: fast"),
            "FILE: memory_bandwidth_gbs: is text ('fast'); write a number",
        ),
        (
            ("memory_bandwidth_gbs: 2039", "memory_bandwidth_gbs: 0"),
            "FILE: memory_bandwidth_gbs: is 0; it must be above 0",
        ),
        (("memory_bandwidth_gbs: 2039", ""), "FILE: memory_bandwidth_gbs: is missing; add it with its source"),
        (("vendor: nvidia", ""), "FILE: vendor: is missing; add it"),
        (("kind: gpu", "kind: gpus"), "FILE: kind: 'gpus' is not accepted; did you mean 'gpu'?"),
        (("{l1:", "{l9:"), "FILE: caches.l9: 'l9' is not accepted; known are l1, l2, l3"),
        (
            ("A100-SXM4-80GB", "'('"),
            "FILE: device_name_pattern: is no regular expression (missing ), unterminated subpattern at position 0); fix it",
        ),
        (
            ("families: [nvidia-a100, nvidia-ampere, nvidia, gpu]", "families: gpu"),
            "FILE: families: is text ('gpu'); write a list of names",
        ),
    ],
)
def test_malformed_file_is_one_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    file = tmp_path / "broken.yaml"
    assert change[0] in GOOD
    file.write_text(GOOD.replace(*change))
    with pytest.raises(TargetError) as caught:
        targets.load(str(file))
    assert str(caught.value) == message.replace("FILE", str(file))


def test_a_target_without_sources_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "unsourced.yaml"
    file.write_text(GOOD.split("sources:")[0])
    with pytest.raises(TargetError, match="sources: is empty; say where the figures come from"):
        targets.load(str(file))
