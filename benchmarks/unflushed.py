"""Run a module or script with flushes that do nothing, for comparison with programs that leave them to the system.

python benchmarks/unflushed.py -m mindport ... | python benchmarks/unflushed.py SCRIPT ...
"""

import os
import runpy
import sys

os.fsync = os.fdatasync = lambda _: None  # type: ignore[assignment]

if sys.argv[1] == "-m":
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
