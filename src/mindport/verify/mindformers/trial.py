"""Train from a YAML with MindFormers' own Trainer on a CPU: `python -m mindport.verify.mindformers.trial`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mindport.errors import MindportError
from mindport.i18n import tr
from mindport.verify.frameworks import require


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mindport.verify.mindformers.trial",
        description=tr("Train from a YAML by MindFormers' own Trainer on a CPU, with stand-ins for Ascend's kernels."),
    )
    parser.add_argument("yaml", type=Path, help=tr("the YAML, written with device: CPU"))
    parser.add_argument("--json", type=Path, metavar="FILE", help=tr("write loss, learning rate and norm of each step"))
    options = parser.parse_args(arguments)
    try:
        require("mindspore", "mindformers")
        from mindport.verify.mindformers.trainer import train

        steps = train(options.yaml)
    except MindportError as error:
        print(error, file=sys.stderr)
        return 1
    for number, step in enumerate(steps, 1):
        print(
            tr(
                "step {number}: loss {loss}, learning rate {rate}, gradient norm {norm}",
                number=number,
                loss=f"{step.loss:.6f}",
                rate=f"{step.learning_rate:.3g}",
                norm=f"{step.gradient_norm:.4f}",
            )
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(step) for step in steps]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
