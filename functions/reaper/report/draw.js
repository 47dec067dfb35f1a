// The basis of the page: the data, its words, elements with text only, and the small charts.
const DATA = JSON.parse(document.getElementById('data').textContent);
const ROWS = DATA.rows.map((cells, place) => Object.fromEntries([['place', place], ...DATA.fields.map((name, i) => [name, cells[i]])]));
const SVG = 'http://www.w3.org/2000/svg';
const SLOT_HOURS = 6, SLOTS = 56;

const say = (word) => (word < 0 ? '' : DATA.words[word]);

// Children are elements or strings; a string can never become markup.
function fill(element, given, children) {
  for (const [name, value] of Object.entries(given)) if (value !== null && value !== false) element.setAttribute(name, value);
  element.append(...children.flat(2).filter((child) => child || child === 0));
  return element;
}
const make = (name, given = {}, ...children) => fill(document.createElement(name), given, children);
const draw = (name, given = {}, ...children) => fill(document.createElementNS(SVG, name), given, children);

// Rows are in US dollars; people read the currency of the policy, with its code unless it is the dollar.
const [CURRENCY, RATE] = DATA.currency;
const amounts = (least, most) => new Intl.NumberFormat('en-US', { style: 'currency', currency: CURRENCY, currencyDisplay: CURRENCY === 'USD' ? 'symbol' : 'code', minimumFractionDigits: least, maximumFractionDigits: most });
const CENTS = amounts(2, 2), WHOLE = amounts(0, 0), FINE = amounts(2, 4);
const money = (usd) => (Math.abs(usd * RATE) < 100 ? CENTS : WHOLE).format(usd * RATE);
const exactly = (usd) => FINE.format(usd * RATE);
const monthly = (usd) => money(usd * DATA.month);
const number = (value) => value.toLocaleString('en-US');

// A long name keeps its beginning and its end, which tell it from others. The whole name is its title.
function short(text, most = 48) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most / 2).join('')}…${letters.slice(1 - most / 2).join('')}`;
}
const named = (text, given = {}, most = 48) => make('bdi', { title: short(text, most) === text ? null : text, ...given }, short(text, most));

// An address may break before its @, and nowhere else if it fits.
const address = (text) => make('bdi', {}, text.split(/(?=@)/).flatMap((part, i) => (i ? [make('wbr'), part] : [part])));

// Seconds as pairs of a count and a unit: at most two of them, whole minutes at least.
function units(seconds) {
  const minutes = Math.floor(seconds / 60), days = Math.floor(minutes / 1440), hours = Math.floor(minutes / 60) % 24;
  const pairs = [[days, 'day'], [hours, 'hour'], [days ? 0 : minutes % 60, 'minute']].filter(([count]) => count);
  return pairs.length ? pairs : [[0, 'minute']];
}
// For a cell `9d 4h`, for a sentence `9 days 4 hours`.
const span = (seconds) => units(seconds).map(([count, unit]) => count + unit[0]).join(' ');
const duration = (seconds) => units(seconds).map(([count, unit]) => `${count} ${unit}${count === 1 ? '' : 's'}`).join(' ');

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
function moment(epoch) {
  const when = new Date(epoch * 1000);
  return `${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]} ${when.getUTCFullYear()}, ${when.toISOString().slice(11, 16)} UTC`;
}
// `Mon 9 Nov`, with the year if it is another one.
function day(epoch) {
  const when = new Date(epoch * 1000), year = when.getUTCFullYear();
  const same = year === new Date(DATA.now * 1000).getUTCFullYear();
  return `${DAYS[when.getUTCDay()]} ${when.getUTCDate()} ${MONTHS[when.getUTCMonth()]}${same ? '' : ` ${year}`}`;
}
const ago = (epoch) => `${moment(epoch)}, ${duration(Math.max(0, DATA.now - epoch))} ago`;

// A complete reply without points means two weeks of nothing: no use, or no heartbeat.
function signals(row) {
  return row.evidence.map(([signal, subject, heart, points, lastBusy, peak, complete, shape]) => {
    const nothing = row.state < 2 && complete && !points ? Array(SLOTS).fill(0) : [];
    return { signal: say(signal), subject: say(subject), heart: Boolean(heart), points, lastBusy, peak, complete: Boolean(complete),
      shape: shape < 0 ? nothing : levels(say(shape)) };
  });
}
const levels = (shape) => Array.from(shape, (digit) => parseInt(digit, 36) / 35);

// Several signals combined slot by slot, counted back from now: the busiest use, or the weakest heartbeat.
function merged(shapes, choose) {
  const wide = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: wide }, (_, i) => choose(...shapes.map((shape) => shape[shape.length - wide + i] ?? 0)));
}

// Bars for use above a line for the heartbeat; either may be empty. `wide` by 26 pixels.
function spark(use, beats, label, wide = 112) {
  const step = wide / SLOTS;
  const at = (list, i) => ((SLOTS - list.length + i) * step).toFixed(2);
  const bars = use.map((level, i) => (level ? `M${at(use, i)} 20v${(-Math.max(2.5, 18 * level)).toFixed(1)}h${(step * 0.82).toFixed(2)}V20z` : '')).join('');
  const line = (live) => beats.map((beat, i) => (Boolean(beat) === live ? `M${at(beats, i)} 24.5h${step.toFixed(2)}` : '')).join('');
  return draw('svg', { class: 'spark', width: wide, height: 26, viewBox: `0 0 ${wide} 26`, role: 'img', 'aria-label': label },
    draw('path', { class: 'floor', d: `M0 20.5h${wide}` }), bars && draw('path', { class: 'used', d: bars }),
    line(true) && draw('path', { class: 'alive', d: line(true) }), line(false) && draw('path', { class: 'dead', d: line(false) }));
}

// All signals of a resource in one chart; null if none has a series.
function evidence(row) {
  const found = signals(row), activity = found.filter((s) => !s.heart), hearts = found.filter((s) => s.heart);
  const use = merged(activity.map((s) => s.shape), Math.max), beats = merged(hearts.map((s) => s.shape), Math.min);
  if (!use.length && !beats.length) return null;
  return spark(use, beats, `${described(use, 'use')}; ${hearts.length ? described(beats, 'heartbeat') : 'no heartbeat signal'}`);
}

function described(shape, what) {
  const hit = shape.filter(Boolean).length;
  return hit ? `${what} in ${hit} of ${shape.length} periods of ${SLOT_HOURS} hours` : `no ${what}`;
}
