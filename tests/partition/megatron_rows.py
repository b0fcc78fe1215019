#!/usr/bin/env python3
"""Runs the schedulers of Megatron Core's dynamic context parallelism and prints the rows that they make.

    megatron_rows.py CHECKOUT PACKED_CHECKOUT >megatron_rows.txt

CHECKOUT is Megatron-LM at its branch dev, PACKED_CHECKOUT at pull request 5191, which packs the balanced scheduler's
samples; docs/dynamic-cp.md names the commits. Only the schedulers' own functions run: PyTorch and the rest of
Megatron-LM are not needed, and stand-ins take their place. Lengths are drawn from a seed.

A line `case SCHEDULER RANKS LIMIT LENGTH...` begins a case; a line for each row follows, with `SIZE:ID,ID,...` for
each group, by rising rank.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import random
import sys
import types
import unittest.mock


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives an empty module for everything that the schedulers' files import but do not need."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "megatron"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__spec__ = spec
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def load(checkout, path):
    file = pathlib.Path(checkout) / "megatron" / "core" / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_length(samples):
    return sorted(samples, key=lambda sample: sample[1], reverse=True)


def packed(utils, samples, ranks, limit):
    rows, left = [], by_length(samples)
    while left:
        _, left, _, ids = utils.next_hdp_group_packing_aware(left, ranks, max_seq_len_per_rank=limit)
        rows.append(ids)
    return rows


def balanced(schedule, samples, ranks, limit):
    group = types.SimpleNamespace(size=lambda: ranks)
    config = types.SimpleNamespace(
        max_seqlen_per_dp_cp_rank=limit, expert_model_parallel_size=1, tensor_model_parallel_size=1)
    is_packed = "config" in schedule.BalancedCPScheduler.__init__.__annotations__
    scheduler = schedule.BalancedCPScheduler(config if is_packed else limit, group)
    return scheduler.get_groups_and_subsamples(samples, config)[1]


def groups(row):
    """Ranks that run the same samples, as text."""
    out, rank = [], 0
    while rank < len(row):
        size = sum(1 for ids in row if ids == row[rank])
        assert all(row[r] == row[rank] for r in range(rank, rank + size)), "the ranks of a group are no neighbours"
        out.append(f"{size}:{','.join(map(str, row[rank]))}")
        rank += size
    return " ".join(out)


def draw(rng, kind, count):
    if kind == "equal":
        return [rng.randint(1, 9000)] * count
    if kind == "two":
        return [rng.choice((500, 7000)) for _ in range(count)]
    if kind == "giant":
        return [rng.randint(1, 900) for _ in range(count - 1)] + [1000 * count]
    return [max(1, min(60000, int(rng.lognormvariate(7.0, 1.5)))) for _ in range(count)]


def main():
    sys.meta_path.insert(0, StandIns())
    utils = load(sys.argv[1], "datasets/data_schedule_utils.py")
    one_by_one = load(sys.argv[1], "pipeline_parallel/hybrid_cp_schedule.py")
    in_packs = load(sys.argv[2], "pipeline_parallel/hybrid_cp_schedule.py")
    schedulers = {
        "packed": lambda *case: packed(utils, *case),
        "balanced": lambda *case: balanced(one_by_one, *case),
        "balanced_packed": lambda *case: balanced(in_packs, *case),
    }
    rng = random.Random(5)
    for trial in range(40):
        ranks = rng.choice((1, 2, 4, 8, 16, 32))
        lengths = draw(rng, rng.choice(("heavy", "heavy", "equal", "two", "giant")), rng.randint(1, 60))
        least = -(-max(lengths) // ranks)
        limit = int(least * 2 ** rng.uniform(0, 6))
        for name, schedule in schedulers.items():
            rows = schedule(list(enumerate(lengths)), ranks, limit)
            print("case", name, ranks, limit, *lengths)
            for row in rows:
                print(groups(row))


main()
