"""How many tasks of a Jug graph are done: `python -m ggmc.cli.task_counter JUGFILE JUGDIR` prints it again and again.

A process of its own, since the jugfile is executed to know its tasks. It ends when its standard input does.
"""

from __future__ import annotations

import select
import sys

from ggmc.plain import PlainDict

EVERY = 1.0  # seconds


def main() -> None:
    """Print `done total`, until nobody reads it any more."""
    from jug import init
    from jug.task import alltasks

    jugfile, jugdir = sys.argv[1:]
    space: PlainDict = {"__jug__hasbarrier__": True}
    while True:
        if space.get("__jug__hasbarrier__", False):  # then some tasks are known only when others are done
            del alltasks[:]
            _, space = init(jugfile, jugdir)
        done = sum(task.can_load() for task in alltasks)
        print(done, len(alltasks), flush=True)
        if select.select([sys.stdin], [], [], EVERY)[0]:
            return


if __name__ == "__main__":
    main()
