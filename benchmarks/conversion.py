"""What converting weights costs, as ratios to `cp` of the same bytes, and the memory that it takes.

    python benchmarks/conversion.py [--size 2.2] [--rounds 5] [--scratch DIR] [--json FILE]
        [--memory 0.5 2 8] [--mindformers PYTHON] [--mergekit PYTHON] [--usual]

Makes a Llama-shaped bfloat16 checkpoint of random bytes, in safetensors and as torch.save writes it, and converts it in
every way, each way once in each round and in another order. A ratio is that of a round: a busy moment hits both. The
first round is not counted: a virtual machine that has not used its memory lately must first get it from its host.

Every way is a whole process, start and imports included; "engine" leaves these out. "warm" reads from the page cache
and flushes nothing, as `cp` does not; "flushed" ends with fsync on both sides, as Mindport always does; "cold" reads
from the disk (the source is taken out of the page cache before) and flushes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import llama

HERE = Path(__file__).resolve().parent
COPY = "cp"
MODES = ("warm", "flushed", "cold")
LIMIT_MB = 64


@dataclass(frozen=True)
class Way:
    """A way to convert.

    Args:
        name: for the table.
        arguments: of python; SOURCE and OUT stand for the folders. None: `cp`.
        source: which folder is read.
        limits: highest ratio to `cp` in each mode that has one.
    """

    name: str
    arguments: tuple[str, ...] | None
    source: str = "hf"
    limits: tuple[tuple[str, float], ...] = ()

    def command(self, source: Path, out: Path, *, flush: bool) -> list[str]:
        """What is started."""
        if self.arguments is None:
            flushed = ' && find "$1" -type f -exec sync {} +' if flush else ""
            return ["sh", "-c", 'cp -r "$0" "$1"' + flushed, str(source), str(out)]
        words = {"SOURCE": str(source), "OUT": str(out)}
        python = [sys.executable] if flush else [sys.executable, str(HERE / "unflushed.py")]
        return [*python, *(words.get(word, word) for word in self.arguments)]


FUSED = (str(HERE / "fused.py"), "SOURCE", "OUT")
CONVERT = ("-m", "mindport", "convert", "SOURCE", "--output", "OUT", "--json")
EXACT = (("warm", 1.25), ("cold", 1.0))
WAYS = (
    Way(COPY, None),
    Way("QKV and gate-up fused, to safetensors", FUSED, limits=EXACT),
    Way("QKV and gate-up fused, to .ckpt", (*FUSED, "--ckpt"), limits=(("warm", 1.5),)),
    Way("`convert`", CONVERT, limits=EXACT),
    Way("`convert --dtype fp32`", (*CONVERT, "--dtype", "fp32"), limits=(("warm", 3.0),)),
    Way("`convert` from .bin", CONVERT, source="bin", limits=(("warm", 1.5),)),
    Way("`export`", ("-m", "mindport", "export", "SOURCE", "--output", "OUT", "--json"), source="native", limits=EXACT),
)


@dataclass(frozen=True)
class Sample:
    """One run: seconds of the whole process and of the engine alone, peak resident MB."""

    seconds: float
    engine: float | None
    peak_mb: float


def run(command: list[str], folder: Path | None = None) -> Sample:
    """Start a process, in a folder if that is given, and wait for it.

    Raises:
        RuntimeError: it failed; with the end of what it printed.
    """
    with tempfile.TemporaryFile() as printed:
        started = perf_counter()
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {text[-2000:]}")
    engine = re.search(r'^ *(?:"seconds": )?(\d+\.\d+)$', text, re.MULTILINE)
    return Sample(seconds, float(engine[1]) if engine else None, usage.ru_maxrss * 1024 / 1e6)


def idle_mb() -> float:
    """Peak resident MB of an interpreter that does nothing, from itself: what its parent had does not count."""
    code = "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) * 1024 / 1e6


def once(way: Way, folder: Path, mode: str) -> Sample:
    """One run of one way, with the caches as the mode wants them, its output removed afterwards."""
    source, out = folder / way.source, folder / "out"
    os.sync()
    for path in source.iterdir():
        with path.open("rb", buffering=0) as file:
            if mode == "cold":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while mode != "cold" and file.read(llama.CHUNK):
                pass
    try:
        return run(way.command(source, out, flush=mode != "warm"))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def measure(folder: Path, modes: Iterable[str], rounds: int) -> dict[str, dict[str, list[Sample]]]:
    """mode -> way -> a sample for each round."""
    found: dict[str, dict[str, list[Sample]]] = {mode: {way.name: [] for way in WAYS} for mode in modes}
    for number in range(rounds + 1):
        for mode, samples in found.items():
            for way in random.sample(WAYS, len(WAYS)):
                sample = once(way, folder, mode)
                if number:
                    samples[way.name].append(sample)
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
    return found


def ratio(samples: dict[str, list[Sample]], way: str, seconds: Callable[[Sample], float | None]) -> float:
    """Median over the rounds of a way's seconds by those of `cp`."""
    pairs = zip(samples[way], samples[COPY], strict=True)
    return statistics.median((seconds(sample) or 0.0) / copy.seconds for sample, copy in pairs)


def times_table(found: dict[str, dict[str, list[Sample]]]) -> str:
    """Seconds of `cp`, ratios to it, and what they may be at most."""
    lines = [f"| x `cp` | {' | '.join(f'{mode} | engine' for mode in found)} | most |"]
    lines.append("|---" * (2 * len(found) + 2) + "|")
    for way in WAYS:
        cells = []
        for samples in found.values():
            if way.name == COPY:
                median = statistics.median(sample.seconds for sample in samples[COPY])
                cells += [f"{median:.2f} s", ""]
                continue
            cells += [f"{ratio(samples, way.name, lambda s: s.seconds):.2f}"]
            cells += [f"{ratio(samples, way.name, lambda s: s.engine):.2f}"]
        limits = ", ".join(f"{mode} {limit:.2f}" for mode, limit in way.limits)
        lines.append(f"| {way.name} | {' | '.join(cells)} | {limits} |")
    return "\n".join(lines)


def make_sources(folder: Path, gigabytes: float) -> None:
    """The checkpoint as safetensors, as torch.save writes it, and in native form."""
    llama.make(folder / "hf", gigabytes)
    llama.make(folder / "bin", gigabytes, torch_zip=True)
    run([sys.executable, "-m", "mindport", "convert", str(folder / "hf"), "--output", str(folder / "native")])


def memory(folder: Path, sizes: Iterable[float]) -> dict[float, dict[str, float]]:
    """Size in GB -> way -> peak MB above an idle interpreter."""
    idle = idle_mb()
    found: dict[float, dict[str, float]] = {}
    for gigabytes in sizes:
        found[gigabytes] = {}
        for source in ("hf", "bin"):
            work = folder / "memory"
            try:
                llama.make(work / source, gigabytes, torch_zip=source == "bin")
                for way in WAYS:
                    # Twice the bytes might not fit on the disk, and the way back needs a third copy.
                    if way.source == source and way.name != COPY and ("fp32" not in way.name or gigabytes <= 2):
                        found[gigabytes][way.name] = (
                            run(way.command(work / source, work / "out", flush=True)).peak_mb - idle
                        )
                        shutil.rmtree(work / "out")
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return found


def memory_table(found: dict[float, dict[str, float]]) -> str:
    """Peak MB above an idle interpreter."""
    lines = [f"| MB above idle | {' | '.join(f'{size:g} GB' for size in found)} |", "|---" * (len(found) + 1) + "|"]
    for way in WAYS:
        cells = [f"{peaks[way.name]:.0f}" if way.name in peaks else "" for peaks in found.values()]
        if any(cells):
            lines.append(f"| {way.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def usual(folder: Path, pythons: dict[str, str | None]) -> dict[str, tuple[float, float]]:
    """What others do, beside a `cp` of each time: name -> (ratio to it, peak MB above an idle interpreter)."""
    found = {}
    for name, python in pythons.items():
        if python is None:
            continue
        way = Way(name, None, source="bin" if name == "script" else "hf")
        copy = once(WAYS[0], folder, "flushed")
        os.sync()
        out = folder / "out"
        try:
            sample = run([python, str(HERE / "usual.py"), name, str(folder / way.source), str(out)], folder)
        except RuntimeError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            continue
        finally:
            shutil.rmtree(out, ignore_errors=True)
        found[name] = (sample.seconds / copy.seconds, sample.peak_mb - idle_mb())
    return found


def usual_table(found: dict[str, tuple[float, float]]) -> str:
    """Ratios and memory of what others do."""
    lines = ["| | x `cp`, flushed | MB above idle |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {times:.1f} | {peak:.0f} |" for name, (times, peak) in found.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=2.2, help="GB of weights; 6 times as much disk is needed")
    parser.add_argument("--rounds", type=int, default=5, help="measured runs of each way in each mode")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES, help="which to measure")
    parser.add_argument(
        "--memory", type=float, nargs="*", default=[0.5, 2.0, 8.0], help="GB at which to measure memory"
    )
    parser.add_argument("--scratch", type=Path, help="folder for the files, on a real disk; emptied of them afterwards")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--usual", action="store_true", help="measure the usual script with torch and mindspore, too")
    parser.add_argument("--mindformers", metavar="PYTHON", help="interpreter of an environment with MindFormers 1.9")
    parser.add_argument("--mergekit", metavar="PYTHON", help="interpreter of an environment with mergekit")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pythons = {
        "script": sys.executable if options.usual else None,
        "mindformers": options.mindformers,
        "mergekit": options.mergekit,
    }
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch).resolve()
        make_sources(folder, options.size)
        found = measure(folder, options.modes, options.rounds) if options.modes else {}
        others = usual(folder, pythons)
        for name in ("hf", "bin", "native"):
            shutil.rmtree(folder / name)
        peaks = memory(folder, options.memory)
    if found:
        print(times_table(found), end="\n\n")
    if peaks:
        print(memory_table(peaks), f"(at most {LIMIT_MB})", sep="\n\n", end="\n\n")
    if others:
        print(usual_table(others))
    if options.json:
        samples = {m: {w: [asdict(s) for s in runs] for w, runs in ways.items()} for m, ways in found.items()}
        figures = {"samples": samples, "memory_mb": peaks, "usual": others}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
