"""Where the program starts: `python -m embyproc`, and the console script."""

import gc

# Started 1,440 times a day and mostly over at once: collecting while the modules are imported
# finds nothing and costs milliseconds. Long runs still collect.
gc.set_threshold(50_000, 20, 20)

from embyproc.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
