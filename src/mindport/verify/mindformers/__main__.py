"""`python -m mindport.verify.mindformers WHO FOLDER`: one of the two processes of a comparison; see `exchange`."""

from __future__ import annotations

import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

from mindport.architectures import use_declarations
from mindport.errors import MindportError
from mindport.verify.frameworks import prepare
from mindport.verify.mindformers.exchange import REFERENCE, Job, write_answer


def main(who: str, folder: str) -> int:
    """Do what `FOLDER/job.json` says; the exit status. An error that the user can act on is the answer."""
    exchange = Path(folder)
    prepare()
    try:
        job = Job.read(exchange)
        declared = use_declarations(Path(job.declarations), apart_from=[Path(job.model)]) if job.declarations else None
        with declared or nullcontext():
            if who == REFERENCE:
                from mindport.verify.mindformers.reference import compute_reference

                compute_reference(exchange, job)
            else:
                from mindport.verify.mindformers.execution import execute

                execute(exchange, job)
    except MindportError as error:
        traceback.print_exc()
        write_answer(exchange, who, {"error": error.as_dict()})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
