"""Runs the comparison page's script in a real browser and drives it as a user does.

Usage: page_test.py SLIMPACK_COMMAND
The page is compare's. What it has to say comes from the same plan's file and trace: contents of packs, times of tasks,
idle time. Exit code 77: Chromium is missing.
"""

import html
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

COMMAND = sys.argv[1]
LENGTHS = [4000, 900, 12000, 300, 2500, 7000, 640, 5000]
JOB = ["--context", "16384", "--model", "llama-13b", "--device", "h100", "--dp", "2", "--pp", "4", "--packs", "8"]
WIDTH = 1200

# Finds where to point by the page's own geometry; what appears there is judged by the plan's file.
DRIVER = r"""
window.requestAnimationFrame = frame => setTimeout(() => frame(performance.now()), 1);  // none come without a screen
const said = {}, canvas = document.getElementById('timeline');
const settled = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
function place(stage, us) {
  const box = canvas.getBoundingClientRect();
  const whole = canvas.clientWidth - 76 - 12;  // between the names of stages and the margin
  return { clientX: box.left + 1 + 76 + (us - view[0]) / (view[1] - view[0]) * whole,
           clientY: box.top + 1 + rows[stage][0] + 7, bubbles: true, cancelable: true, pointerId: 1 };
}
function over(stage, us) {
  canvas.dispatchEvent(new PointerEvent('pointermove', place(stage, us)));
  const tip = document.getElementById('tip');
  return tip.style.display === 'block' ? tip.textContent : '';
}
function pixel(stage, us) {
  const box = canvas.getBoundingClientRect(), at = place(stage, us);
  return [...canvas.getContext('2d').getImageData(at.clientX - box.left - 1, at.clientY - box.top + 4, 1, 1).data];
}
async function choose(id, value) {
  const choice = document.getElementById(id);
  choice.value = value;
  choice.dispatchEvent(new Event('change'));
  await settled();
}
(async () => {
  await settled();
  said.whole = [...view];
  said.tasks = TASKS.map(([stage, us]) => over(stage, us));
  said.idle = IDLE.map(([stage, us]) => over(stage, us));
  said.byPass = TASKS.map(([stage, us]) => pixel(stage, us));
  said.bubble = IDLE.map(([stage, us]) => pixel(stage, us));
  await choose('colour', 'sample');
  said.bySample = TASKS.map(([stage, us]) => pixel(stage, us));
  await choose('colour', 'pass');
  said.byPassAgain = TASKS.map(([stage, us]) => pixel(stage, us));
  canvas.dispatchEvent(new PointerEvent('pointerleave', { pointerId: 1 }));
  said.left = document.getElementById('tip').style.display;

  const [stage, us] = TASKS[1];
  canvas.dispatchEvent(new WheelEvent('wheel', { ...place(stage, us), deltaY: -400 }));
  await settled();
  said.wheel = [...view];
  said.afterWheel = [over(stage, us), pixel(stage, us)];
  for (const key of ['+', 'ArrowRight', '-', '0']) {
    dispatchEvent(new KeyboardEvent('keydown', { key }));
    await settled();
    said['key ' + key] = [...view];
  }
  document.getElementById('in').click();
  await settled();
  said.button = [...view];
  const box = canvas.getBoundingClientRect();
  const drag = (type, x) => canvas.dispatchEvent(
    new PointerEvent(type, { pointerId: 1, clientX: box.left + x, clientY: box.top + 30 }));
  canvas.setPointerCapture = () => {};  // there is no real pointer to capture
  drag('pointerdown', 500); drag('pointermove', 400); drag('pointerup', 400);
  await settled();
  said.dragged = [...view];
  document.getElementById('reset').click();
  await settled();
  said.reset = [...view];

  const choices = document.querySelectorAll('#choices select');
  said.pipelines = [...choices[0].options].map(option => option.textContent);
  choices[0].value = '1';
  choices[0].dispatchEvent(new Event('change'));
  await settled();
  said.other = OTHER.map(([stage, us]) => over(stage, us));
  document.title = JSON.stringify(said);
})().catch(error => { document.title = JSON.stringify({ error: String(error) }); });
"""


def fail(what, got):
    sys.exit(f"{what}; the page has {got!r}")


def check(holds, what, got):
    if not holds:
        fail(what, got)


def run(*arguments):
    return subprocess.run([COMMAND, *arguments], check=True, capture_output=True, text=True).stdout


def seconds(us):
    """As the page writes times."""
    if us >= 1e6:
        return f"{us / 1e6:.3f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.0f} µs"


def says(text, pattern, *times):
    """Whether the text holds the pattern with these times. The page has whole microseconds, so each may be off by one."""
    options = [{seconds(us + off) for off in (-1, 0, 1)} for us in times]
    return any(pattern.format(*choice) in text for choice in itertools.product(*options))


def stages_of(trace, pipeline):
    """[stage] tasks in their order, as (name, start, duration, args)."""
    stages = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == pipeline:
            task = (event["name"], event["ts"], event["dur"], event.get("args", {}))
            stages.setdefault(event["tid"], []).append(task)
    return [sorted(stages[s], key=lambda task: task[1]) for s in sorted(stages)]


def some_tasks(stages):
    """(stage, middle, task) of the first, a middle and the last task of some stages."""
    return [(s, task[1] + task[2] / 2, task)
            for s in (0, len(stages) - 1) for task in (stages[s][0], stages[s][len(stages[s]) // 2], stages[s][-1])]


def gaps(stages):
    """(stage, middle, from, to) of idle time that is wide enough to point at."""
    found = []
    for s, tasks in enumerate(stages):
        now = 0.0
        for _, start, duration, _ in tasks:
            if start - now > 20000:
                found.append((s, (start + now) / 2, now, start))
            now = start + duration
    return found


def check_task(text, plan, task):
    name, start, duration, _ = task
    forward = name[0] == "F"
    pack = (plan["forward"] if forward else plan["backward"])[int(name[1:])]
    assert pack["id"] == int(name[1:])
    tokens = sum(end - begin for _, begin, end in pack["slices"])
    for part in ([f"{'forward' if forward else 'backward'} pack {pack['id']}",
                  f"{tokens:,} tokens in {len(pack['slices'])} slice"] +
                 [f"sample {sample}: {begin} to {end}" for sample, begin, end in pack["slices"][:8]]):
        check(part in text, f"expected '{part}' over {name}", text)
    check(says(text, "takes {}", duration), f"expected {seconds(duration)} over {name}", text)
    check(says(text, "{} to {}", start, start + duration),
          f"expected {seconds(start)} to {seconds(start + duration)} over {name}", text)
    merged = len(pack["pipelines"]) > 1
    check((f"merged over {len(pack['pipelines'])} pipelines" in text) == merged, f"{name} is merged: {merged}", text)


def near(a, b, tolerance):
    return all(abs(x - y) <= tolerance for x, y in zip(a, b))


def check_views(said, us):
    whole = said["whole"]
    span = lambda view: view[1] - view[0]
    tolerance = 1e-9 * span(whole)
    part = (us - whole[0]) / span(whole)
    wheel = said["wheel"]
    check(abs(span(wheel) - span(whole) * 2.718281828 ** -1) < 1e-6 * span(whole), "the wheel zooms by e", wheel)
    check(abs((us - wheel[0]) / span(wheel) - part) < 2 / WIDTH, "what is under the pointer stays there", wheel)
    check(abs(span(said["key +"]) - 0.6 * span(wheel)) <= tolerance, "+ zooms in", said["key +"])
    check(said["key ArrowRight"][0] > said["key +"][0], "the right arrow moves on", said["key ArrowRight"])
    check(abs(span(said["key -"]) - span(wheel)) <= tolerance, "- zooms out", said["key -"])
    check(near(said["key 0"], whole, tolerance), "0 shows the whole step", said["key 0"])
    check(abs(span(said["button"]) - 0.6 * span(whole)) <= tolerance, "the button zooms in", said["button"])
    check(said["dragged"][0] > said["button"][0] and
          abs(span(said["dragged"]) - span(said["button"])) <= tolerance, "dragging moves", said["dragged"])
    check(near(said["reset"], whole, tolerance), "the button shows the whole step", said["reset"])


def check_colours(said, tasks):
    colours = {name[0]: tuple(colour) for (_, _, (name, *_)), colour in zip(tasks, said["byPass"])}
    check(len(set(colours.values())) == 2, "forward and backward differ", colours)
    for (_, _, (name, *_)), colour in zip(tasks, said["byPass"]):
        check(tuple(colour) == colours[name[0]], f"{name} has its pass's colour", colour)
    check(said["byPassAgain"] == said["byPass"], "colours by pass come back", said["byPassAgain"])
    check(all(a != b for a, b in zip(said["bySample"], said["byPass"])), "colours by sample are others", said["bySample"])
    check(all(tuple(colour) not in colours.values() for colour in said["bubble"]), "bubbles stay open", said["bubble"])


def page_says(chromium, folder, page, points):
    """The page's own answers to DRIVER, run after its script."""
    script = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in points.items()) + DRIVER
    driven = folder / "driven.html"
    driven.write_text(page.replace("</body>", f"<script>{{{script}}}</script></body>"))
    dom = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000",
         f"--window-size={WIDTH},1400", f"--user-data-dir={folder / 'profile'}", "--dump-dom", driven.as_uri()],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120).stdout
    title = html.unescape(dom.split("<title>")[1].split("</title>")[0])
    if not title.startswith("{"):
        sys.exit("the page's script did not come to its end")
    said = json.loads(title)
    if "error" in said:
        sys.exit("the page's script failed: " + said["error"])
    return said


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: Chromium is not installed (Debian: chromium)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lengths = folder / "lengths.txt"
        lengths.write_text("".join(f"{n}\n" for n in LENGTHS))
        job = ["--lengths", str(lengths), "--planner", "slimpack", *JOB]
        run("plan", *job, "-o", str(folder / "plan.json"))
        run("compare", *job, "--html", str(folder / "page.html"))
        plan = json.loads((folder / "plan.json").read_text())
        trace = json.loads(run("trace", str(folder / "plan.json")))
        stages, other = stages_of(trace, 0), stages_of(trace, 1)
        tasks, idle, others = some_tasks(stages), gaps(stages), some_tasks(other)
        assert idle, "a plan without bubbles tests nothing"
        said = page_says(chromium, folder, (folder / "page.html").read_text(), {
            "TASKS": [point[:2] for point in tasks], "IDLE": [point[:2] for point in idle],
            "OTHER": [point[:2] for point in others]})
    for (stage, _, task), text in zip(tasks, said["tasks"]):
        check(f"pipeline 0, stage {stage}" in text, f"expected stage {stage} over {task[0]}", text)
        check_task(text, plan, task)
    for (stage, _, start, end), text in zip(idle, said["idle"]):
        check(says(text, "idle from {} to {}, for {}", start, end, end - start),
              f"expected stage {stage} idle from {seconds(start)} to {seconds(end)}", text)
    check(said["left"] == "none", "nothing is said once the pointer has left", said["left"])
    check_colours(said, tasks)
    check_views(said, tasks[1][1])
    check(said["afterWheel"][0] == said["tasks"][1], "the same task is under the pointer after zooming", said["afterWheel"])
    check(said["afterWheel"][1] == said["byPass"][1], "it keeps its colour after zooming", said["afterWheel"])
    check(said["pipelines"] == ["pipeline 0", "pipeline 1"], "both pipelines can be chosen", said["pipelines"])
    for (stage, _, task), text in zip(others, said["other"]):
        check(f"pipeline 1, stage {stage}" in text, f"expected stage {stage} of pipeline 1 over {task[0]}", text)
        check_task(text, plan, task)
    print(f"{len(tasks) + len(others)} tasks, {len(idle)} bubbles, colours and views of the page are as the plan has them")


main()
