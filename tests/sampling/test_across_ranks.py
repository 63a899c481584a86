"""What each of several ranks keeps and says, where each has chains of its own: in one process, without a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ggmc.sampling.across_ranks import RunCheckpoints
from ggmc.sampling.ranks import Ranks
from ggmc.sampling.request import Request


class Answered(Ranks):
    """A rank with chains of its own, to whom it is known what all ranks will say."""

    def __init__(self, rank: int, answers: list[Any]):
        super().__init__(rank, len(answers), "chains")
        self._answers = answers

    def exchange(self, value: Any, everywhere: bool = True) -> list[Any]:
        assert value == self._answers[self.rank]
        return self._answers


def test_each_rank_goes_on_with_its_own_state(tmp_path: Path) -> None:
    states = [{"drawn": 5, "name": name} for name in ("first", "second", "third")]
    RunCheckpoints(tmp_path, 0.0, Answered(0, states)).write(states[0])
    for rank, state in enumerate(states):
        assert RunCheckpoints(tmp_path, 0.0, Ranks(rank, 3, "chains")).newest()[0].state == state


def test_the_remarks_of_all_ranks_are_kept_with_who_said_them() -> None:
    said = [["a"], [], ["a", "b"]]
    wanted = ["Rank 0: a", "Rank 2: a", "Rank 2: b"]
    assert [Answered(rank, said).remarks(said[rank]) for rank in range(3)] == [wanted] * 3


def test_every_part_has_other_random_numbers_in_a_run_from_other_starts() -> None:
    starts = [None, torch.zeros(4, 2), torch.ones(4, 2)]
    requests = [Request.asked(10, 0, 4, 0, None, None, start) for start in starts]
    parts = [request.own_chains(Ranks(rank, 2, "chains")) for request in requests for rank in range(2)]
    assert len({part[1] for part in parts if part is not None}) == 6
