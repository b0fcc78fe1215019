#pragma once

#include <string_view>

namespace slimpack::detail {

/// Style of the comparison page; light and dark.
inline constexpr std::string_view html_style = R"css(
:root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1d2126;--dim:#6b7480;--line:#d9dde2;--card:#fff;--idle:#eef0f2;
--F:#3b7dd8;--B:#e08a1e;--W:#4aa36b}
@media (prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e8ea;--dim:#929ba6;--line:#333a42;--card:#1c2025;
--idle:#23282e;--F:#5b9bf0;--B:#f0a545;--W:#62bd85}}
body{margin:0 auto;max-width:1500px;padding:20px;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:20px;margin:0 0 4px}h2{font-size:15px;margin:22px 0 6px}
.bar{display:flex;flex-wrap:wrap;gap:14px;align-items:center;color:var(--dim)}
.bar label{display:inline-flex;gap:5px;align-items:center}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:4px}
canvas{display:block;width:100%;background:var(--card);border:1px solid var(--line);border-radius:6px}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px;overflow:auto;
font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
.note{color:var(--dim);margin:2px 0}
select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:5px;padding:2px 8px}
#tip{position:fixed;pointer-events:none;display:none;max-width:420px;background:var(--card);color:var(--fg);
border:1px solid var(--line);border-radius:6px;padding:7px 10px;font-size:12.5px;box-shadow:0 3px 14px #0003;
white-space:pre-line;z-index:9}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:16px}
)css";

/// Script of the comparison page. `DATA` holds the plans; times are microseconds.
inline constexpr std::string_view html_script = R"js(
'use strict';
const $ = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const end = Math.max(1, ...DATA.map(p => p.end));
let view = [0, end], hot = [];
const shown = DATA.map(p => p.order[0]);

function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return [g, width];
}
const left = 76, right = 12;
const seconds = us => us >= 1e6 ? (us / 1e6).toFixed(3) + ' s' : us >= 1e3 ? (us / 1e3).toFixed(2) + ' ms' : us.toFixed(0) + ' µs';

function ticks(lo, hi, n) {
  const raw = (hi - lo) / n, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
  const list = [];
  for (let t = Math.ceil(lo / step) * step; t <= hi; t += step) list.push(t);
  return [list, step];
}
function axis(g, width, top, bottom) {
  const [list, step] = ticks(view[0], view[1], Math.max(3, width / 130));
  const unit = step >= 1e4 ? [1e6, 's'] : [1e3, 'ms'];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0])));
  g.fillStyle = css('--dim'); g.strokeStyle = css('--line'); g.textAlign = 'center';
  for (const t of list) {
    const x = left + (t - view[0]) / (view[1] - view[0]) * (width - left - right);
    g.beginPath(); g.moveTo(x + .5, top); g.lineTo(x + .5, bottom); g.stroke();
    g.fillText((t / unit[0]).toFixed(digits) + ' ' + unit[1], x, bottom + 13);
  }
}
function sampleColour(id) { return `hsl(${(id * 137.508) % 360} 58% ${46 + (id % 3) * 9}%)`; }
function colour(plan, task) {
  if ($('colour').value === 'pass') return css('--' + 'FBW'[task[0]]);
  const pack = plan.packs[task[0] === 0 ? 0 : 1][task[1]];
  let widest = null;
  for (const s of pack[1]) if (!widest || s[2] - s[1] > widest[2] - widest[1]) widest = s;
  return widest ? sampleColour(widest[0]) : css('--dim');
}
function timelines() {
  const row = 17, gap = 30;
  const heights = DATA.map((p, i) => p.stages[shown[i]].length * row);
  const [g, width] = fit($('timeline'), heights.reduce((a, b) => a + b + gap, 0) + 22);
  const scale = (width - left - right) / (view[1] - view[0]);
  hot = [];
  let y = 20;
  axis(g, width, 4, heights.reduce((a, b) => a + b + gap, 0) + 2);
  DATA.forEach((plan, i) => {
    const stages = plan.stages[shown[i]];
    g.textAlign = 'left'; g.fillStyle = css('--fg');
    g.fillText(`${plan.title}: pipeline ${shown[i]}, ${seconds(plan.end)}`, left, y - 6);
    stages.forEach((tasks, s) => {
      const top = y + s * row;
      g.fillStyle = css('--dim'); g.textAlign = 'right';
      g.fillText('stage ' + s, left - 6, top + 12);
      const x0 = Math.max(left, left + (0 - view[0]) * scale), x1 = Math.min(width - right, left + (plan.end - view[0]) * scale);
      g.fillStyle = css('--idle');
      if (x1 > x0) g.fillRect(x0, top, x1 - x0, row - 2);
      for (const task of tasks) {
        if (task[3] < view[0] || task[2] > view[1]) continue;
        const a = Math.max(left, left + (task[2] - view[0]) * scale), b = Math.min(width - right, left + (task[3] - view[0]) * scale);
        g.fillStyle = colour(plan, task);
        g.fillRect(a, top, Math.max(.4, b - a - (b - a > 4 ? .8 : 0)), row - 2);
        if ($('colour').value === 'sample' && task[0] === 1) { g.fillStyle = '#0004'; g.fillRect(a, top + row - 5, b - a, 3); }
        if (b - a > 30) { g.fillStyle = '#fff'; g.textAlign = 'center'; g.fillText('FBW'[task[0]] + task[1], (a + b) / 2, top + 11.5); }
        hot.push([a, top, Math.max(b, a + 1), top + row - 2, plan, shown[i], s, task]);
      }
    });
    y += heights[i] + gap;
  });
}
function memory() {
  const with_memory = DATA.map((p, i) => [p, i]).filter(e => e[0].memory);
  $('memory').style.display = $('memory-title').style.display = with_memory.length ? '' : 'none';
  if (!with_memory.length) return;
  const each = 120, gap = 34;
  const [g, width] = fit($('memory'), with_memory.length * (each + gap) + 16);
  const top_bytes = Math.max(...with_memory.map(([p, i]) => Math.max(...p.memory[shown[i]].flatMap(c => c.filter((_, k) => k % 2)))));
  const scale = (width - left - right) / (view[1] - view[0]);
  axis(g, width, 4, with_memory.length * (each + gap));
  with_memory.forEach(([plan, i], n) => {
    const base = 18 + n * (each + gap) + each;
    g.fillStyle = css('--fg'); g.textAlign = 'left';
    g.fillText(`${plan.title}: bytes per device, pipeline ${shown[i]}`, left, base - each - 4);
    const [list] = ticks(0, top_bytes / 1e3, 4);
    for (const t of list) {
      const y = base - t * 1e3 / top_bytes * each;
      g.fillStyle = css('--dim'); g.textAlign = 'right'; g.fillText(t.toFixed(0) + ' GB', left - 6, y + 4);
      g.strokeStyle = css('--line'); g.beginPath(); g.moveTo(left, y + .5); g.lineTo(width - right, y + .5); g.stroke();
    }
    const curves = plan.memory[shown[i]];
    g.save(); g.beginPath(); g.rect(left, base - each - 2, width - left - right, each + 4); g.clip();
    curves.forEach((curve, s) => {
      g.strokeStyle = `hsl(${210 + 150 * s / Math.max(1, curves.length - 1)} 65% 52%)`; g.lineWidth = 1.3; g.beginPath();
      for (let k = 0; k < curve.length; k += 2) {
        const x = left + (curve[k] - view[0]) * scale, y = base - curve[k + 1] / top_bytes * each;
        if (k) g.lineTo(x, base - curve[k - 1] / top_bytes * each); else g.moveTo(x, y);
        g.lineTo(x, y);
      }
      g.stroke();
    });
    g.restore();
    curves.forEach((_, s) => {
      g.fillStyle = `hsl(${210 + 150 * s / Math.max(1, curves.length - 1)} 65% 52%)`; g.textAlign = 'right';
      g.fillText('stage ' + s, width - right - (curves.length - 1 - s) * 50, base - each - 4);
    });
  });
}
function violin(canvas, pass) {
  const [g, width] = fit(canvas, 240);
  const sets = DATA.map(p => p.durations[pass].slice().sort((a, b) => a - b));
  const top = Math.max(...sets.map(s => s[s.length - 1] || 0)) * 1.05 || 1, base = 214, height = 196;
  const [list] = ticks(0, top / 1e3, 4);
  for (const t of list) {
    const y = base - t * 1e3 / top * height;
    g.fillStyle = css('--dim'); g.textAlign = 'right'; g.fillText(+t.toPrecision(3) + ' ms', left - 6, y + 4);
    g.strokeStyle = css('--line'); g.beginPath(); g.moveTo(left, y + .5); g.lineTo(width - right, y + .5); g.stroke();
  }
  sets.forEach((set, i) => {
    const centre = left + (width - left - right) * (i + .5) / sets.length, half = Math.min(90, (width - left - right) / sets.length * .42);
    const bins = 64, band = top / 70, density = [];
    for (let b = 0; b <= bins; ++b) {
      const v = top * b / bins;
      density.push(set.reduce((sum, d) => sum + Math.exp(-.5 * ((d - v) / band) ** 2), 0));
    }
    const most = Math.max(...density, 1e-9);
    g.fillStyle = css(pass ? '--B' : '--F'); g.globalAlpha = .75; g.beginPath();
    density.forEach((d, b) => g.lineTo(centre + half * d / most, base - height * b / bins));
    density.slice().reverse().forEach((d, b) => g.lineTo(centre - half * d / most, base - height * (bins - b) / bins));
    g.fill(); g.globalAlpha = 1; g.strokeStyle = css('--fg');
    for (const q of [.25, .5, .75]) {
      const v = set[Math.min(set.length - 1, Math.floor(q * set.length))] || 0, y = base - v / top * height;
      g.setLineDash(q === .5 ? [] : [4, 3]); g.beginPath(); g.moveTo(centre - half * .55, y); g.lineTo(centre + half * .55, y); g.stroke();
    }
    g.setLineDash([]); g.fillStyle = css('--fg'); g.textAlign = 'center';
    g.fillText(`${DATA[i].title} (${set.length} packs)`, centre, base + 16);
  });
}
function draw() { timelines(); memory(); violin($('violin0'), 0); violin($('violin1'), 1); }
function tip(event) {
  const box = $('timeline').getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const hit = hot.find(h => x >= h[0] && x <= h[2] && y >= h[1] && y <= h[3]), t = $('tip');
  if (!hit) { t.style.display = 'none'; return; }
  const [, , , , plan, pipeline, stage, task] = hit, pack = plan.packs[task[0] === 0 ? 0 : 1][task[1]];
  const slices = pack[1].slice(0, 8).map(s => `sample ${s[0]}: ${s[1]} to ${s[2]}`).join('\n');
  t.textContent = `${['forward', 'backward', 'weight gradient of'][task[0]]} pack ${task[1]}${pack[2] > 1 ? `, merged over ${pack[2]} pipelines` : ''}\n` +
    `pipeline ${pipeline}, stage ${stage}\n${seconds(task[2])} to ${seconds(task[3])}, takes ${seconds(task[3] - task[2])}\n` +
    `${pack[0]} tokens in ${pack[1].length} slices\n${slices}${pack[1].length > 8 ? '\n…' : ''}`;
  t.style.display = 'block';
  t.style.left = Math.min(event.clientX + 14, innerWidth - t.offsetWidth - 8) + 'px';
  t.style.top = Math.min(event.clientY + 14, innerHeight - t.offsetHeight - 8) + 'px';
}
function zoom(factor, at) {
  const span = Math.min(end, Math.max(end / 1e5, (view[1] - view[0]) * factor));
  const share = (at - view[0]) / (view[1] - view[0]);
  const lo = Math.min(Math.max(0, at - share * span), end - span);
  view = [lo, lo + span];
  draw();
}
function timeAt(clientX) {
  const box = $('timeline').getBoundingClientRect();
  return view[0] + (clientX - box.left - left) / (box.width - left - right) * (view[1] - view[0]);
}
DATA.forEach((plan, i) => {
  const choice = document.createElement('select');
  for (const p of plan.order) choice.add(new Option(`pipeline ${p}`, p));
  choice.onchange = () => { shown[i] = +choice.value; draw(); };
  const label = document.createElement('label');
  label.append(plan.title + ':', choice);
  $('pipelines').append(label);
});
$('colour').onchange = draw;
$('reset').onclick = () => { view = [0, end]; draw(); };
$('timeline').addEventListener('wheel', e => { e.preventDefault(); zoom(Math.exp(e.deltaY / 400), timeAt(e.clientX)); }, { passive: false });
let drag = null;
$('timeline').addEventListener('pointerdown', e => { drag = [e.clientX, view[0]]; });
addEventListener('pointerup', () => { drag = null; });
$('timeline').addEventListener('pointermove', e => {
  if (!drag) { tip(e); return; }
  const span = view[1] - view[0], width = $('timeline').clientWidth - left - right;
  const lo = Math.min(Math.max(0, drag[1] - (e.clientX - drag[0]) / width * span), end - span);
  view = [lo, lo + span];
  draw();
});
$('timeline').addEventListener('pointerleave', () => { $('tip').style.display = 'none'; });
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
  if (key === 'color') $('colour').value = value;
  if (key === 'view') view = value.split('-').map(v => +v * end);
}
draw();
)js";

}  // namespace slimpack::detail
