"""The demo: two real pre-trained models cross over to MindSpore, and a table says how close they came.

`python examples/fetch_models.py` makes the two model folders; `make demo` runs both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("SmolLM2-135M-Instruct", "all-MiniLM-L6-v2")


def migrate(model: Path, output: Path) -> dict[str, Any]:
    """Run `mindport migrate` on one model and read its record.

    Raises:
        SystemExit: the migration did not pass; the command has said why.
    """
    command = [
        sys.executable,
        "-m",
        "mindport",
        "migrate",
        str(model),
        "-o",
        str(output),
        "--to",
        "native",
        "--overwrite",
    ]
    if subprocess.run(command, check=False).returncode:
        sys.exit(1)
    return json.loads((output / "migration.json").read_text(encoding="utf-8"))


def figures(record: dict[str, Any]) -> dict[str, str]:
    """The numbers of one migration, by what they are."""
    weights, text, alignment = record["weights"], record["text"], record["alignment"]
    differences = [d for found in record["parity"].values() for d in found]
    top1 = [d["top1"] for d in differences if d["top1"] is not None]
    losses = zip(alignment["losses"], alignment["reference_losses"], strict=True)
    norms = zip(alignment["grad_norms"], alignment["reference_grad_norms"], strict=True)
    return {
        "parameters": f"{record['parameters']:,}",
        "tensors": str(weights["tensors_out"]),
        "weights": f"{weights['nbytes'] / 1e6:.0f} MB",
        "conversion": f"{weights['seconds']:.2f} s, {weights['peak_mb']:.0f} MB of memory",
        "largest error of an output": f"{max(d['max_abs'] for d in differences):.1e}",
        "mean error of an output": f"{max(d['mean_abs'] for d in differences):.1e}",
        "least cosine": f"{min(d['cosine'] for d in differences):.10f}",
        "same next token": f"{min(top1):.2%}" if top1 else "-",
        "greedy text": ("equal" if text["equal"] else "DIFFERENT") + f", {text['tokens']} tokens" if text else "-",
        "sentence embeddings, cosine": f"{record['embeddings']['cosine']:.10f}" if record["embeddings"] else "-",
        "loss difference, ten steps": f"{max(abs(a - b) for a, b in losses):.1e}",
        "gradient norm difference, ten steps": f"{max(abs(a - b) / b for a, b in norms):.1e} (relative)",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=ROOT / ".cache" / "models", help="folder of the fetched models")
    parser.add_argument("--output", type=Path, default=ROOT / "demo-output", help="folder for the migrated models")
    args = parser.parse_args()
    console = Console()
    started = time.perf_counter()
    results = {}
    for name in MODELS:
        console.print(f"\n[bold]{name}[/bold]")
        results[name] = figures(migrate(args.models / name, args.output / name))
    table = Table("PyTorch -> MindSpore", *MODELS)
    for what in results[MODELS[0]]:
        table.add_row(what, *(result[what] for result in results.values()))
    console.print()
    console.print(table)
    for name in MODELS:
        console.print(f"report: {args.output / name / 'report.html'}", soft_wrap=True)
    console.print(f"{time.perf_counter() - started:.0f} s for both migrations")


if __name__ == "__main__":
    main()
