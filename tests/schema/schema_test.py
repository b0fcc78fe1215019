"""Checks docs/plan.schema.json with a real validator against the library that writes and reads plan files.

Usage: schema_test.py DOCS_FOLDER PLAN_FILES_BINARY
1. Plans of both planners and of every kind fit, and so does the documentation's example.
2. Broken ones don't: each of a list, and whatever the reader refuses among thousands of small changes.
3. What the library finds valid fits.
Exit code 77: Python's jsonschema is missing.
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("skipped: this Python has no jsonschema 4 (Debian: python3-jsonschema)")
    sys.exit(77)

DOCS, PLAN_FILES = pathlib.Path(sys.argv[1]), sys.argv[2]
GONE = object()
REPLACEMENTS = [None, True, -1, 0, 0.5, 2**31, 2**32, 2**63, "text", "F0", "both", [], [-1], {}]
# What a schema can't say: rules between fields, and the end of the numbers of packs in tasks.
BETWEEN_FIELDS = (
    "one of each for every stage", ", the pack's place", ", as in the packs before it",
    " pipelines, or none", "one list for each of the ",
)
# The reader takes null in an optional field as if it were left out; files should leave it out.
OPTIONAL = (
    "notes", "document_ids", "recompute_layers", "per_document_slices", "devices", "block", "exchange",
    "offload_layers", "weight_seconds",
)

failures = 0


def check(ok, *message):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", *message)


def changed(plan, path, value):
    """A copy of a plan with another value at a path, or without the path's last key."""
    result = copy.deepcopy(plan)
    place = result
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    elif isinstance(place, list) and path[-1] == len(place):
        place.append(value)
    else:
        place[path[-1]] = value
    return result


def places(value, path=()):
    """All paths in a plan; of a list, only to its first entry and its end."""
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = list(enumerate(value[:1])) if isinstance(value, list) else []
    for key, member in items:
        yield (*path, key)
        yield from places(member, (*path, key))


def small_changes(plan):
    """Each place gone, or replaced by something else; each object with one field more."""
    for path in places(plan):
        yield path, GONE
        for value in REPLACEMENTS:
            yield path, value
    for path in [("x",), ("model", "x"), ("device", "x"), ("pipelines", 0, "x"), ("forward", 0, "x"), ("step", "x")]:
        yield path, {"more": [1]}


# Paths as in 'forward 0 id'; each has to be refused.
BROKEN = [
    ("tokens", GONE), ("version", 3), ("version", True), ("format", "other"), ("planner", 3),
    ("tokens 0", 0), ("tokens 0", -1), ("tokens 0", 1.5), ("tokens 0", "12"), ("tokens 0", 2**63),
    ("deferred", [0, 0]), ("deferred", [-1]), ("deferred", [2**32]), ("document_ids", [0, 0]), ("document_ids", [-1]),
    ("document_ids", [2**64]), ("notes", [1]), ("notes", "text"),
    ("model layers", 0), ("model vocab", GONE), ("model heads", 2.5), ("device", {}), ("device peak_flops", -1),
    ("device peak_flops", "fast"), ("device gemm_efficiency", 1.01), ("device gemm_backward_efficiency", 1.01),
    ("device attention_forward", -0.1),
    ("device intra_node_latency", -1e-6), ("device devices_per_node", 0.5), ("pipelines", []),
    ("pipelines 0 tp", 0), ("pipelines 0 pp", 0), ("pipelines 0 layers", []), ("pipelines 0 layers 0", -1),
    ("pipelines 0 order", []), ("pipelines 0 order", GONE), ("pipelines 0 order 0 0", "X0"),
    ("pipelines 0 order 0 0", "f0"), ("pipelines 0 order 0 0", "F"), ("pipelines 0 order 0 0", "F-1"),
    ("pipelines 0 order 0 0", "F1.5"), ("pipelines 0 order 0 0", "F0 "), ("pipelines 0 order 0 0", 0),
    ("forward 0 id", -1), ("forward 0 pipelines", []), ("forward 0 pipelines", [0, 0]), ("forward 0 slices", GONE),
    ("forward 0 slices 0", [0, 0]), ("forward 0 slices 0", [0, 0, 1, 1]), ("forward 0 slices 0", [0, -1, 1]),
    ("forward 0 slices 0", [0, 0, 0]), ("forward 0 slices 0", [0, 0.5, 1]), ("forward 0 flops linear", GONE),
    ("forward 0 flops attention", -1), ("forward 0 seconds", []), ("forward 0 seconds 0", 0),
    ("forward 0 seconds 0", -1), ("forward 0 transfer_seconds", -1), ("forward 0 transfer_seconds", GONE),
    ("forward 0 transfer_seconds", [-1]), ("forward 0 transfer_seconds", ["1"]), ("pipelines 0 devices", 3),
    ("pipelines 0 devices", [[-1]]), ("pipelines 0 phase", -1), ("pipelines 0 stage_of", [0, 1, 0, 1]),
    ("step switch_seconds", [-1]),
    ("forward 0 block", 0), ("forward 0 exchange", "pigeon"), ("forward 0 weight_seconds", [1, 1]),
    ("forward 0 offload_layers", [1, 1]), ("backward 0 weight_seconds", [-1, 1]),
    ("backward 0 offload_layers", [0.5, 1]), ("forward 0 sharding", "both"), ("forward 0 sharding", "mixed"), ("forward 0 per_document_slices", [0]),
    ("forward 0 recompute_layers", [0]), ("backward 0 recompute_layers 0", -1),
    ("backward 0 recompute_layers 0", 0.5), ("backward 0 id", GONE), ("step", []), ("step seconds", GONE),
    ("step sync_seconds", -1), ("step bubble_ratio", 1.5), ("step bubble_ratio", -0.5),
    ("step lower_bound_seconds", "low"), ("step peak_bytes", GONE), ("step peak_bytes 0 0", -1),
]


def verdicts(plans, folder):
    """What the library says about each plan."""
    file = pathlib.Path(folder) / "changed"
    file.write_text("".join(json.dumps(plan) + "\n" for plan in plans))
    lines = subprocess.run([PLAN_FILES, "read", file], check=True, capture_output=True, text=True).stdout.splitlines()
    check(len(lines) == len(plans), len(lines), "verdicts for", len(plans), "plans")
    return lines


def check_kinds(plans):
    """The plans show all that the schema describes."""
    packs = [pack for plan in plans.values() for pack in plan["forward"] + plan["backward"]]
    from_planners = [plan for plan in plans.values() if plan["planner"] in ("slimpack", "megatron")]
    kinds = {
        "both planners": {plan["planner"] for plan in from_planners} == {"slimpack", "megatron"},
        "planners' notes": any(plan["notes"] for plan in from_planners),
        "planners' recomputation": any(
            any(pack["recompute_layers"]) for plan in from_planners for pack in plan["backward"]
        ),
        "merged packs": any(len(pack["pipelines"]) > 1 for pack in packs),
        "planners' sharded packs": any("sharding" in pack for plan in from_planners for pack in plan["forward"]),
        "all shardings": {"per_sequence", "per_document", "mixed", "by_position"}
        <= {pack.get("sharding") for pack in packs},
        "both versions": {plan["version"] for plan in plans.values()} == {1, 2},
        "transfers that differ": any(isinstance(pack["transfer_seconds"], list) for pack in packs),
        "exchanges": {"ring", "all_to_all", "all_gather", "queries"} <= {pack.get("exchange") for pack in packs},
        "offloaded layers": any("offload_layers" in pack for pack in packs),
        "seconds of weight gradients": any("weight_seconds" in pack for pack in packs),
        "devices": any("devices" in plan["pipelines"][0] for plan in from_planners),
        "document ids": any(plan.get("document_ids") for plan in plans.values()),
        "deferred samples": any(plan["deferred"] for plan in plans.values()),
        "weight gradients": any(
            task[0] == "W" for plan in plans.values() for task in plan["pipelines"][0]["order"][0]
        ),
    }
    for kind, there in kinds.items():
        check(there, "no plan has", kind)


def main(folder):
    schema = json.loads((DOCS / "plan.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    schema = Draft202012Validator(schema)

    subprocess.run([PLAN_FILES, "write", folder], check=True)
    plans = {file.stem: json.loads(file.read_text()) for file in sorted(pathlib.Path(folder).glob("*.json"))}
    check_kinds(plans)
    page = (DOCS / "plan-format.md").read_text()
    plans["the documentation's example"] = json.loads(page.split("```json")[1].split("```")[0])
    for name, plan in plans.items():
        for error in schema.iter_errors(plan):
            check(False, name, "at", error.json_path, error.message)

    base = plans["by-hand-1"]
    listed = changed(base, ("forward", 0, "transfer_seconds"), [0] * (base["pipelines"][0]["pp"] - 1))
    check(schema.is_valid(listed) and not schema.is_valid(changed(listed, ("version",), 1)), "a list in version 1 fits")
    for words, value in BROKEN:
        path = tuple(int(word) if word.isdigit() else word for word in words.split())
        check(not schema.is_valid(changed(base, path, value)), words, "=", "gone" if value is GONE else value, "fits")
    check(verdicts([changed(base, ("step", "energy"), 1)], folder) == ["valid"], "an added field is not valid")

    changes = list(small_changes(base))
    candidates = [changed(base, path, value) for path, value in changes]
    count = {True: 0, False: 0}
    for (path, value), plan, verdict in zip(changes, candidates, verdicts(candidates, folder)):
        fits = schema.is_valid(plan)
        count[fits] += 1
        what = f"{path} = {'gone' if value is GONE else value}: {verdict};"
        if verdict.startswith("refused") and not any(text in verdict for text in BETWEEN_FIELDS):
            check(not fits, what, "the schema accepts it")
        null = value is None and (path[-1] in OPTIONAL or path[0] == "device")
        if verdict == "valid" and not null:
            check(fits, what, "the schema does not accept it")
    check(min(count.values()) > 50, "too few changes of one kind:", count)
    print(f"{len(plans)} plans fit; {len(BROKEN)} broken ones and {count[False]} of {sum(count.values())} changes don't")


with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
sys.exit(1 if failures else 0)
