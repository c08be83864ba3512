"""All measurements of docs/performance.md in one run, and the page from them: ``python -m benchmarks [--full]``.

Each benchmark is a process of its own, writes JSON into benchmarks/results, and can be run by itself.  ``--page`` only
writes the page from what there is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter

from .disturbance import watch_others
from .page import STAGES, write_page
from .report import RESULTS, ROOT, describe_machine, write_results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="everything, which takes hours; without it, ten minutes")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="only these")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    failed = []
    if not options.page:
        known = RESULTS / "stages.json"
        facts = json.loads(known.read_text()) if known.exists() else {}
        for stage in options.stages:
            print(f"== {stage}", flush=True)
            start, machine = perf_counter(), describe_machine()
            with watch_others() as others:
                command = [sys.executable, "-m", f"benchmarks.{stage}", *(["--full"] if options.full else [])]
                if subprocess.run(command, cwd=ROOT, check=False).returncode:
                    failed.append(stage)
            minutes = (perf_counter() - start) / 60
            facts[stage] = machine | {"minutes": minutes, "others_cores": others.cores, "is_full": options.full}
            write_results("stages", facts)
    if failed:
        print(f"Failed: {', '.join(failed)}. The page was not written.", file=sys.stderr)
        return 1
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
