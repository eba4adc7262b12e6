"""A process that runs jobs: it reads them from standard input, and writes their outcomes to what was standard output."""

from __future__ import annotations

import os
import pickle
import sys


def main() -> None:
    # A program under Tilewright has its children be hosts as well (cutile/children.py); this one is none.
    os.environ.pop("TILEWRIGHT_HOSTED", None)
    answers = os.fdopen(os.dup(1), "wb")
    # What jobs print, also by themselves without Python, must not come between.
    os.dup2(2, 1)
    from tilewright.campaign.jobs import run_job

    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(run_job(job), answers)
        answers.flush()


if __name__ == "__main__":
    main()
