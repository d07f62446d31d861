"""What `mindport inspect` and a config-only `convert` cost as whole processes, beside what they replace.

    python benchmarks/startup.py [--runs 15] [--json FILE]

Every command is started once to warm the disk's cache and then in turn, so that a busy moment hits all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from mindport.version import __version__

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def commands(config: Path, output: Path) -> dict[str, list[str]]:
    """What is measured, by name."""
    python = sys.executable
    mindport = [python, "-m", "mindport"]
    return {
        "python -c pass": [python, "-c", "pass"],
        "import typer": [python, "-c", "import typer"],
        "mindport inspect": [*mindport, "inspect", str(config)],
        "mindport convert (config only)": [*mindport, "convert", str(config), "--output", str(output), "--overwrite"],
        "import AutoConfig": [python, "-c", "from transformers import AutoConfig"],
    }


def measure(command: list[str]) -> tuple[float, float]:
    """(seconds, peak resident MiB) of one process.

    Raises:
        RuntimeError: the command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="measured runs of each command")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    # Where this is set, nothing is cached and every start compiles anew: no user's machine is like that.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG), encoding="utf-8")
        measured = commands(config, Path(folder) / "out")
        for command in measured.values():
            measure(command)
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
        for _ in range(options.runs):
            for name, command in measured.items():
                samples[name].append(measure(command))
    figures = {
        name: {
            "median_s": statistics.median(seconds for seconds, _ in found),
            "min_s": min(seconds for seconds, _ in found),
            "max_s": max(seconds for seconds, _ in found),
            "peak_mib": max(peak for _, peak in found),
        }
        for name, found in samples.items()
    }
    print(f"{'':32}{'median':>9}{'min':>9}{'max':>9}{'peak memory':>14}")
    for name, row in figures.items():
        times = "".join(f"{row[key]:7.3f} s" for key in ("median_s", "min_s", "max_s"))
        print(f"{name:32}{times}{row['peak_mib']:10.0f} MiB")
    if options.json:
        packages = {"mindport": __version__, **{name: version(name) for name in ("typer", "transformers")}}
        about = {"runs": options.runs, "python": platform.python_version(), "cpus": os.cpu_count(), **packages}
        options.json.write_text(json.dumps({"about": about, "figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
