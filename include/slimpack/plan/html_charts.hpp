#pragma once

#include <string_view>

namespace slimpack::detail {

/// The rest of the comparison page's script: memory curves, zoom, and the first drawing.
inline constexpr std::string_view html_charts = R"js(
const each = 120;
const stageColour = (s, n) => `hsl(${210 + 150 * s / Math.max(1, n - 1)} 65% 55%)`;
function curvesOf(plan, i) {
  plan.curves ??= [];
  return plan.curves[i] ??= plan.memory[i].map(flat => {
    const n = flat.length / 2, time = new Float64Array(n), held = new Float64Array(n);
    for (let k = 0, t = 0, m = 0; k < n; ++k) {
      time[k] = t += flat[2 * k];
      held[k] = m += flat[2 * k + 1];
    }
    return { time, held };
  });
}
const remembered = DATA.map((plan, i) => i).filter(i => DATA[i].memory);
function memory() {
  if (!remembered.length) return;
  const [g, width] = fit($('memory'), remembered.length * (each + gap) + 20);
  const left = leftOf(width), scale = spread(width);
  const larger = (a, b) => Math.max(a, b);
  const peak = (most, i) => curvesOf(DATA[i], shown[i]).reduce((m, c) => c.held.reduce(larger, m), most);
  const most = remembered.reduce(peak, 1), capacities = remembered.map(i => DATA[i].capacity);
  const top = Math.max(most, ...capacities.filter(c => c < 2 * most)) * 1.04;
  timeAxis(g, width, 4, remembered.length * (each + gap) + 4);
  remembered.forEach((i, n) => {
    const plan = DATA[i], base = 18 + n * (each + gap) + each, curves = curvesOf(plan, shown[i]);
    const text = `${plan.title}: pipeline ${plan.pipelines[shown[i]]}`;
    caption(g, text, width < 600 ? 8 : left, base - each - 5);
    valueAxis(g, width, base, each, top / 1e3, t => t + ' GB');
    g.save(); g.beginPath(); g.rect(left, base - each - 2, width - left - right, each + 4); g.clip();
    if (plan.capacity > 0) {
      const y = base - plan.capacity / top * each;
      g.setLineDash([5, 4]); horizontal(g, theme.fg, y, left, width); g.setLineDash([]);
      caption(g, 'device ' + (plan.capacity / 1e3).toFixed(1) + ' GB', width - right - 90, y + 13);
    }
    g.lineWidth = 1.2;
    curves.forEach((curve, s) => {
      g.strokeStyle = stageColour(s, curves.length); g.beginPath();
      const from = Math.max(0, firstAfter(curve.time, view[0]) - 1);
      for (let k = from; k < curve.time.length; ++k) {
        const x = left + (curve.time[k] - view[0]) * scale;
        if (k === from) g.moveTo(x, base - curve.held[k] / top * each);
        else g.lineTo(x, base - curve.held[k - 1] / top * each);
        g.lineTo(x, base - curve.held[k] / top * each);
        if (curve.time[k] > view[1]) break;
      }
      g.stroke();
    });
    g.restore();
  });
}
function describeMemory(x, y) {
  const n = Math.floor((y - 14) / (each + gap)), width = $('memory').clientWidth, left = leftOf(width);
  const t = view[0] + (x - left) / spread(width);
  if (n < 0 || n >= remembered.length || x < left || x > width - right) return '';
  const plan = DATA[remembered[n]];
  if (t > plan.end) return '';
  return `${plan.title} at ${seconds(t)}\n` + curvesOf(plan, shown[remembered[n]]).map((curve, s) =>
    `stage ${s}: ${((curve.held[firstAfter(curve.time, t) - 1] || 0) / 1e3).toFixed(1)} GB`).join('\n');
}

let queued = false;
function draw() {
  queued = false;
  timelines(); memory();
}
function redraw() {
  if (!queued) requestAnimationFrame(draw);
  queued = true;
}
function look(lo, span) {
  span = Math.min(end, Math.max(Math.min(end, 50), span));
  lo = Math.min(Math.max(0, lo), end - span);
  if (lo === view[0] && lo + span === view[1]) return false;
  view = [lo, lo + span];
  redraw();
  return true;
}
// Where a point of the window is in what a canvas shows, which begins inside its border.
function inside(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
}
function timeAt(canvas, event) {
  return view[0] + (inside(canvas, event)[0] - leftOf(canvas.clientWidth)) / spread(canvas.clientWidth);
}
function zoom(factor, at = (view[0] + view[1]) / 2) {
  const span = view[1] - view[0];
  return look(at - (at - view[0]) * Math.min(factor, end / span), span * factor);
}
function listen(canvas, describeAt) {
  let drag = null;
  canvas.addEventListener('wheel', e => {
    if (zoom(Math.exp(e.deltaY / 400), timeAt(canvas, e))) e.preventDefault();
  }, { passive: false });
  canvas.addEventListener('pointerdown', e => {
    drag = [e.clientX, view[0]];
    canvas.setPointerCapture(e.pointerId);
  });
  for (const over of ['pointerup', 'pointercancel']) canvas.addEventListener(over, () => { drag = null; });
  canvas.addEventListener('pointermove', e => {
    tip(e, drag ? '' : describeAt(...inside(canvas, e)));
    if (drag) look(drag[1] - (e.clientX - drag[0]) / spread(canvas.clientWidth), view[1] - view[0]);
  });
  canvas.addEventListener('pointerleave', e => tip(e, ''));
}
listen($('timeline'), describe);
listen($('memory'), describeMemory);
addEventListener('keydown', e => {
  if (e.target.tagName === 'SELECT' || e.ctrlKey || e.metaKey || e.altKey) return;
  const step = { ArrowLeft: -.2, ArrowRight: .2 }[e.key];
  if (e.key === '+' || e.key === '=') zoom(.6);
  else if (e.key === '-') zoom(1 / .6);
  else if (e.key === '0') look(0, end);
  else if (step) look(view[0] + step * (view[1] - view[0]), view[1] - view[0]);
});
$('in').onclick = () => zoom(.6);
$('out').onclick = () => zoom(1 / .6);
$('reset').onclick = () => look(0, end);
$('colour').onchange = $('critical').onchange = () => redraw();
DATA.forEach((plan, i) => {
  const choice = document.createElement('select'), label = document.createElement('label');
  plan.pipelines.forEach((p, n) => choice.add(new Option('pipeline ' + p, n)));
  choice.onchange = () => { shown[i] = +choice.value; redraw(); };
  label.append(plan.title + ':', choice);
  $('choices').append(label);
});
const depth = Math.max(0, ...remembered.map(i => DATA[i].memory[0].length));
for (let s = 0; s < depth; ++s) {
  const key = document.createElement('span');
  key.textContent = 'stage ' + s;
  key.style.color = stageColour(s, depth);
  $('stages').append(key);
}
if (!remembered.length) $('memory-part').remove();
addEventListener('resize', () => redraw());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readTheme(); redraw(); });
for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
  if (key === 'colour') $('colour').value = value;
  if (key === 'critical') $('critical').checked = value === 'on';
  if (key === 'view') view = value.split('-').map(v => +v * end);
}
readTheme();
draw();
)js";

}  // namespace slimpack::detail
