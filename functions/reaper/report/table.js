// The table: its filters, order and pages. Only one page is ever in the document, so that ten thousand rows stay fast.
const PAGE = 50, CHOICES = 200, ON_PAPER = 200;
const by = (id) => document.getElementById(id);
const table = by('resources');
const FILTERS = ['kind', 'owner', 'region'];
const COUNTED = ['state', ...FILTERS];
const NUMBERS = new Set(['idleFor', 'usd', 'wasted']);
const ORDERS = { state: 1, name: 1, region: 1, owner: 1, idleFor: -1, usd: -1, wasted: -1 };
const view = { q: '', states: new Set(), kind: '', owner: '', region: '', sort: '', way: 1, group: '', page: 0, open: new Set(), unfolded: new Map(), paper: false };
let found = ROWS, counted = {}, groups = [], lines = ROWS;

const PLAIN = ['name', 'id', 'kind', 'owner', 'region', 'account', 'accountName', 'size', 'rule', 'because', 'step'];
function haystack(row) {
  row.hay ??= [...PLAIN.map((field) => say(row[field])), ...(row.tags ?? []).map(([key, value]) => `${say(key)}=${say(value)}`)].join('\n').toLowerCase();
  return row.hay;
}

// One test per filter: whether a row passes it.
function tests() {
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  return {
    state: (row) => !view.states.size || view.states.has(row.state),
    ...Object.fromEntries(FILTERS.map((field) => [field, (row) => !view[field] || say(row[field]) === view[field]])),
    q: (row) => words.every((word) => haystack(row).includes(word)),
  };
}

// The rows that pass every filter, and for each choice of a filter, the number of rows it would show: those that pass all other filters.
function sifted() {
  const filters = Object.entries(tests()), rows = [], counts = Object.fromEntries(COUNTED.map((field) => [field, new Map()]));
  for (const row of ROWS) {
    const against = filters.filter(([, passes]) => !passes(row)).map(([name]) => name);
    if (!against.length) rows.push(row);
    for (const field of COUNTED) if (against.every((name) => name === field)) counts[field].set(row[field], (counts[field].get(row[field]) ?? 0) + 1);
  }
  return { rows, counts };
}

// Unknown values come last in both directions; equal rows keep the page's own order: idle first, the most expensive first.
function order(one, other) {
  const { sort, way } = view;
  if (!sort) return one.place - other.place;
  if (sort === 'state') return way * (one.state - other.state) || one.place - other.place;
  const [a, b] = [one[sort], other[sort]];
  if (NUMBERS.has(sort)) return (a === null) - (b === null) || way * ((a ?? 0) - (b ?? 0)) || one.place - other.place;
  return way * say(a).localeCompare(say(b), 'en', { numeric: true }) || one.place - other.place;
}

function refresh(page = 0) {
  const { rows, counts } = sifted();
  [found, counted] = [rows.sort(order), counts];
  view.page = page;
  arrange();
  show();
  remember();
}

// The lines of the table: the rows or, if they are grouped, each group with its rows if it is open.
function arrange() {
  const name = grouping(view.group);
  groups = name ? groupsOf(found, name) : [];
  lines = name ? groups.flatMap((group) => [group, ...(unfolded(group) ? group.rows : [])]) : found;
  view.page = Math.max(0, Math.min(view.page, Math.ceil(lines.length / PAGE) - 1));
}

// Groups are closed at first unless all of them fit on one page with their rows.
const unfolded = (group) => view.unfolded.get(group.text) ?? found.length + groups.length <= PAGE;

function unfold(changed, open) {
  for (const group of changed) view.unfolded.set(group.text, open);
  arrange();
}

function show() {
  const first = view.page * PAGE, shown = view.paper ? printed() : lines.slice(first, first + PAGE);
  const continued = !view.paper && groups.length && !shown[0]?.rows ? lines.findLast((item, place) => place < first && item.rows) : null;
  const bodies = [make('tbody')];
  for (const item of continued ? [continued, ...shown] : shown) {
    if (item.rows && bodies.at(-1).rows.length) bodies.push(make('tbody'));
    bodies.at(-1).append(...(item.rows ? [heading(item, groups.indexOf(item), view.paper || unfolded(item), item === continued)] : drawn(item)));
  }
  if (!shown.length) bodies[0].append(make('tr', {}, make('td', { colspan: COLUMNS, class: 'none' }, ROWS.length ? 'No resources match these filters.' : 'No resources found.')));
  for (const old of [...table.tBodies]) old.remove();
  table.append(...bodies);
  summarize(shown.filter((item) => !item.rows));
}

function drawn(row) {
  const open = view.open.has(row.place) || view.paper;
  return open ? [line(row, true), detail(row)] : [line(row, false)];
}

// On paper all groups are open; without groups, what is idle or unknown comes first.
function printed() {
  if (!groups.length) return [...found.filter((row) => row.state < 2), ...found.filter((row) => row.state >= 2)].slice(0, ON_PAPER);
  let left = ON_PAPER;
  return groups.flatMap((group) => {
    const rows = group.rows.slice(0, left);
    left -= rows.length;
    return rows.length ? [group, ...rows] : [];
  });
}

function summarize(rows) {
  const usd = found.reduce((sum, row) => sum + (row.state === 0 ? row.usd ?? 0 : 0), 0);
  const first = view.page * PAGE, pages = Math.ceil(lines.length / PAGE), open = groups.some(unfolded);
  const part = view.paper && rows.length < found.length ? `, the first ${number(rows.length)} are printed` : '';
  document.querySelector('.count').textContent = `${number(found.length)} of ${number(ROWS.length)}${groups.length ? ` in ${number(groups.length)} group${groups.length === 1 ? '' : 's'}` : ''}${usd ? `, idle: ${monthly(usd)} a month` : ''}${part}`;
  by('page').textContent = groups.length ? `Page ${number(view.page + 1)} of ${number(pages)}` : found.length ? `${number(first + 1)}–${number(Math.min(first + PAGE, found.length))} of ${number(found.length)}` : '';
  by('pages').hidden = pages < 2;
  by('unfold').hidden = !groups.length;
  by('unfold').textContent = open ? 'Close all groups' : 'Open all groups';
  turns();
  choices();
  for (const head of document.querySelectorAll('#resources thead [data-sort]')) {
    head.setAttribute('aria-sort', head.dataset.sort !== view.sort ? 'none' : view.way > 0 ? 'ascending' : 'descending');
  }
  for (const bar of document.querySelectorAll('[data-by]')) bar.setAttribute('aria-pressed', String(alone(bar)));
}

// After the keyboard has reached the last page, the focus moves to the other button, not to the top of the page.
function turns() {
  const [back, on] = by('pages').querySelectorAll('button'), focused = document.activeElement;
  back.disabled = view.page === 0;
  on.disabled = (view.page + 1) * PAGE >= lines.length;
  if (focused === on && on.disabled) back.focus();
  if (focused === back && back.disabled) on.focus();
}

function choices() {
  for (const chip of document.querySelectorAll('.chip')) {
    const place = Number(chip.dataset.state);
    chip.setAttribute('aria-pressed', String(view.states.has(place)));
    chip.querySelector('b').textContent = number(counted.state.get(place) ?? 0);
  }
  for (const option of document.querySelectorAll('option[data-word]')) {
    option.textContent = `${option.value} (${number(counted[option.parentNode.id].get(Number(option.dataset.word)) ?? 0)})`;
  }
}

// Whether the table shows exactly the idle resources of a bar.
function alone({ dataset }) {
  const others = ['q', ...FILTERS].filter((field) => field !== dataset.by);
  return view[dataset.by] === dataset.value && view.states.size === 1 && view.states.has(0) && others.every((field) => !view[field]);
}

function choose(bar) {
  const again = alone(bar);
  clear();
  if (!again) Object.assign(view, { [bar.dataset.by]: bar.dataset.value, states: new Set([0]) });
  fields();
  refresh();
  if (!again && by('all').getBoundingClientRect().top > innerHeight) by('all').scrollIntoView();
}

function clear() {
  Object.assign(view, { q: '', kind: '', owner: '', region: '', states: new Set() });
}

// The address contains the filters, so that a filtered page can be shared.
function remember() {
  const params = new URLSearchParams();
  for (const field of ['q', ...FILTERS]) if (view[field]) params.set(field, view[field]);
  if (view.states.size) params.set('state', [...view.states].map((place) => DATA.states[place]).join(','));
  if (view.group) params.set('group', view.group);
  if (view.sort) params.set('sort', (view.way < 0 ? '-' : '') + view.sort);
  const hash = params.size ? `#${params}` : '#';
  if (!params.size && !location.hash.includes('=')) return;
  try { history.replaceState(null, '', hash); } catch (error) { /* A page in a sandboxed frame has no address of its own. */ }
}

function recall() {
  const params = new URLSearchParams(location.hash.slice(1));
  for (const field of ['q', ...FILTERS]) view[field] = params.get(field) ?? '';
  view.states = new Set((params.get('state') ?? '').split(',').map((name) => DATA.states.indexOf(name)).filter((place) => place >= 0));
  view.group = [...by('group').options].find(({ value }) => value.toLowerCase() === params.get('group')?.toLowerCase())?.value ?? '';
  const sort = params.get('sort') ?? '', field = sort.replace(/^-/, '');
  [view.sort, view.way] = Object.hasOwn(ORDERS, field) ? [field, sort === field ? 1 : -1] : ['', 1];
  fields();
}

function fields() {
  for (const field of FILTERS) {
    const select = by(field);
    if (view[field] && ![...select.options].some((option) => option.value === view[field])) select.append(make('option', { value: view[field] }, view[field]));
    select.value = view[field];
  }
  by('q').value = view.q;
  by('group').value = view.group;
}

function offer() {
  by('group').append(...tagKeys().slice(0, CHOICES).map((key) => make('option', { value: `tag:${key}` }, `tag ${key}`)));
  for (const field of FILTERS) {
    const counts = new Map();
    for (const row of ROWS) counts.set(row[field], (counts.get(row[field]) ?? 0) + 1);
    const often = [...counts].sort((a, b) => b[1] - a[1] || say(a[0]).localeCompare(say(b[0])));
    by(field).append(...often.slice(0, CHOICES).map(([word]) => make('option', { value: say(word), 'data-word': word }, say(word))));
    if (often.length > CHOICES) by(field).append(make('option', { disabled: '' }, `${number(often.length - CHOICES)} more: use the search`));
  }
}

function toggle(place) {
  const row = table.querySelector(`tr[data-place="${place}"]`), open = !view.open.has(place);
  view.open[open ? 'add' : 'delete'](place);
  row.classList.toggle('is-open', open);
  row.querySelector('.open').setAttribute('aria-expanded', String(open));
  if (open) row.after(detail(ROWS[place])); else row.nextElementSibling.remove();
}

// The page follows the heading, or the first row below it, and the keyboard stays on the heading.
function toggleGroup(place) {
  const open = !unfolded(groups[place]);
  unfold([groups[place]], open);
  view.page = Math.floor((lines.indexOf(groups[place]) + open) / PAGE);
  show();
  table.querySelector(`[data-group="${place}"]`).focus();
}

function sortBy(field) {
  if (view.sort === field && view.way !== ORDERS[field]) [view.sort, view.way] = ['', 1];
  else [view.sort, view.way] = [field, view.sort === field ? -view.way : ORDERS[field]];
  refresh();
}

// On paper nothing can be opened, so everything is open: the rows and the folded targets.
function paper(on) {
  if (view.paper === on) return;
  view.paper = on;
  for (const folded of document.querySelectorAll(on ? 'details:not([open])' : 'details[data-paper]')) {
    folded.open = on;
    folded.toggleAttribute('data-paper', on);
  }
  show();
}

function start() {
  offer();
  for (const head of document.querySelectorAll('#resources thead [data-sort]')) {
    const button = make('button', { type: 'button', class: 'sort' }, head.textContent);
    button.addEventListener('click', () => sortBy(head.dataset.sort));
    head.replaceChildren(button);
  }
  for (const chip of document.querySelectorAll('.chip')) {
    const place = Number(chip.dataset.state);
    chip.addEventListener('click', () => { view.states[view.states.has(place) ? 'delete' : 'add'](place); refresh(); });
  }
  for (const bar of document.querySelectorAll('[data-by]')) {
    bar.disabled = false;
    bar.addEventListener('click', () => choose(bar));
  }
  for (const field of FILTERS) by(field).addEventListener('change', (event) => { view[field] = event.target.value; refresh(); });
  by('group').addEventListener('change', ({ target }) => { view.group = target.value; view.unfolded.clear(); refresh(); });
  by('unfold').addEventListener('click', () => { unfold(groups, !groups.some(unfolded)); show(); });
  by('q').addEventListener('input', (event) => { view.q = event.target.value; refresh(); });
  by('filters').addEventListener('submit', (event) => event.preventDefault());
  by('filters').addEventListener('reset', (event) => { event.preventDefault(); clear(); Object.assign(view, { sort: '', way: 1 }); fields(); refresh(); });
  by('pages').addEventListener('click', ({ target }) => { if (target.dataset.turn) { view.page += Number(target.dataset.turn); show(); by('all').scrollIntoView(); } });
  table.addEventListener('click', ({ target }) => {
    const row = target.closest('tr[data-place]'), group = target.closest('[data-group]');
    if (group) toggleGroup(Number(group.dataset.group));
    if (row && !String(getSelection())) toggle(Number(row.dataset.place));
  });
  addEventListener('hashchange', () => { if (location.hash.includes('=')) { recall(); refresh(); } });
  addEventListener('beforeprint', () => paper(true));
  addEventListener('afterprint', () => paper(false));
  matchMedia('print').addEventListener('change', ({ matches }) => paper(matches));
  for (const id of ['filters', 'strokes']) by(id).hidden = false;
  recall();
  refresh();
}
start();
