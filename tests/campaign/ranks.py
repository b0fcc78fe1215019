#!/usr/bin/env python3
"""Kills or freezes ranks of `slimpack train` over TCP at random moments, from their start on.

Usage: ranks.py BINARY [--runs N] [--seed S]. Exits with 1 unless all other ranks end by themselves, soon after, with exit code 2
and a message that names a rank that was killed or frozen. Only `--timeout` may pass before they do, and time to start.
"""
import argparse
import collections
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TIMEOUT = 3.0  # seconds without an answer until a rank is given up
START = 10.0  # seconds until all ranks must have met
SLACK = 10.0  # for a machine that is busy
LAYOUTS = ({"dp": 1, "pp": 2}, {"dp": 2, "pp": 1}, {"dp": 2, "pp": 2}, {"dp": 3, "pp": 2})


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


class Run:
    """The ranks of one run that would go on for hours."""

    def __init__(self, binary, folder, layout):
        ranks = layout["dp"] * layout["pp"]
        subprocess.run([binary, "plan", "--lengths", f"{folder}/lengths", "--context", "200", "--truncate", "--tile", "16",
                        "--model", "llama-13b", "--layers", "4", "--dp", str(layout["dp"]), "--pp", str(layout["pp"]),
                        "--exchange", "ring", "-o", f"{folder}/plan.json"], check=True)
        words = [binary, "train", "--plan", f"{folder}/plan.json", "--hidden", "32", "--heads", "2", "--kv-heads", "1",
                 "--head-dim", "16", "--ffn", "64", "--vocab", "64", "--steps", "1000000", "--timeout", str(TIMEOUT),
                 "--start-timeout", str(START)]
        port = str(free_port())
        self.ranks = []
        for rank in range(ranks):
            own = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="localhost",
                       MASTER_PORT=port)
            error = open(f"{folder}/error{rank}", "w+b")  # closed with the run
            self.ranks.append((subprocess.Popen(words, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=error), error))

    def hit(self, rank, kind):
        self.ranks[rank][0].send_signal(kind)

    def wait(self, rank, until):
        """The exit code and the message, or nothing if the rank goes on."""
        process, error = self.ranks[rank]
        try:
            code = process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        error.seek(0)
        return code, error.read().decode(errors="replace")

    def end(self):
        for process, error in self.ranks:
            process.kill()  # also ends a frozen one
            process.wait()
            error.close()


def complaint(answer, victims):
    """What is wrong with how a rank has ended, if anything is."""
    if answer is None:
        return "hangs"
    code, text = answer
    if code != 2:
        return f"ends with {code}: {text.strip()}"
    named = {int(number) for group in re.findall(r"\branks? ([\d, ]+)", text) for number in re.findall(r"\d+", group)}
    return None if named & set(victims) else f"names none of {victims}: {text.strip()}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("binary")
    options.add_argument("--runs", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    draw = random.Random(options.seed)
    count = collections.Counter()
    for number in range(options.runs):
        layout = draw.choice(LAYOUTS)
        ranks = layout["dp"] * layout["pp"]
        victims = draw.sample(range(ranks), draw.randrange(1, ranks)) if draw.random() < 0.3 else [draw.randrange(ranks)]
        kind = draw.choice((signal.SIGKILL, signal.SIGSTOP))
        moment = draw.uniform(0.0, 1.5)
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/lengths", "w", encoding="ascii") as file:
                file.writelines(f"{draw.randrange(1, 300)}\n" for _ in range(6))
            run = Run(options.binary, folder, layout)
            try:
                time.sleep(moment)
                for victim in victims:
                    run.hit(victim, kind)
                until = time.monotonic() + max(START - moment, 0.0) + TIMEOUT + SLACK
                count["killed" if kind == signal.SIGKILL else "frozen"] += len(victims)
                for rank in range(ranks):
                    if rank in victims:
                        continue
                    count["others"] += 1
                    wrong = complaint(run.wait(rank, until), victims)
                    if wrong:
                        count["wrong"] += 1
                        print(f"seed {options.seed}, run {number}: {layout}, {kind.name} for {victims} after {moment:.3f} s: "
                              f"rank {rank} {wrong}")
            finally:
                run.end()
    print(f"seed {options.seed}: {options.runs} runs, {count['killed']} ranks killed, {count['frozen']} frozen; of the "
          f"{count['others']} others {count['wrong']} did not end as they should")
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
