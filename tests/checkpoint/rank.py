"""One process of a meeting, as test_meeting.py and test_launchers.py start it.

    rank.py FOLDER FINGERPRINT PATIENCE [NUMBER:ACTION ...]

It prints one JSON object: `results` (rank 0) and `launch` if all went well, `error` if not, `left` (when) in any case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from mindport.checkpoint.meeting import Meeting
from mindport.checkpoint.ranks import Rank, rank_of
from mindport.errors import MindportError


def act(action: str, meeting: Meeting) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "refuse":
        raise MindportError("No space is left.", "Free some.")
    elif action == "crash":
        raise ValueError("wrong")
    elif action == "interrupt":
        raise KeyboardInterrupt
    elif action == "busy":
        time.sleep(1.5)
    elif action == "hang":
        while True:
            time.sleep(0.05)
            meeting.check()


def take_part(rank: Rank, said: dict[str, Any]) -> None:
    actions = dict(argument.split(":") for argument in sys.argv[4:])
    try:
        with Meeting(Path(sys.argv[1]), rank, sys.argv[2], patience=float(sys.argv[3])) as meeting:
            try:
                act(actions.get(str(rank.number), ""), meeting)
                meeting.done({"rank": rank.number})
                if rank.number == 0:
                    said["results"] = meeting.results()
                    act(actions.get("publish", ""), meeting)
                    meeting.finish()
                else:
                    meeting.wait()
                said["launch"] = meeting.launch
            finally:
                said["inside"] = time.monotonic()
    except MindportError as error:
        said["error"] = str(error)
    said["left"] = time.monotonic()


def main() -> None:
    rank = rank_of(os.environ)
    if rank is None:
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as the command line does
    said: dict[str, Any] = {"rank": rank.number}
    try:
        take_part(rank, said)
    finally:
        said["frameworks"] = sorted({"mindspore", "torch", "numpy"} & {*sys.modules})
        os.write(1, (json.dumps(said) + "\n").encode())  # in one piece, beside the lines of the others
    sys.exit(1 if "error" in said else 0)


if __name__ == "__main__":
    main()
