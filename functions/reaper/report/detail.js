// One resource: its row in the table, and its details once the row is open.
const COLUMNS = 8;

function line(row, open) {
  const name = make('button', { type: 'button', class: 'open', 'aria-expanded': String(open), 'aria-controls': `detail-${row.place}`, 'data-place': row.place },
    named(say(row.name), { class: 'name' }));
  return make('tr', { class: open ? 'is-open' : null, 'data-place': row.place },
    make('th', { scope: 'row' }, name, make('small', {}, [say(row.kind), say(row.size)].filter(Boolean).join(', '))),
    make('td', {}, make('span', { class: `pill ${DATA.states[row.state]}` }, DATA.states[row.state]), row.confidence >= 0 && make('small', {}, say(row.confidence))),
    make('td', { class: 'far' }, say(row.region), make('small', {}, named(say(row.accountName) || say(row.account), { class: 'short', title: account(row) }, 20))),
    make('td', { class: 'far' }, address(say(row.owner))),
    make('td', { class: 'mid' }, evidence(row) ?? make('span', { class: 'dim' }, '–')),
    make('td', { class: 'n mid' }, row.idleFor === null ? '–' : span(row.idleFor)),
    make('td', { class: row.state ? 'n' : 'n money' }, row.usd === null ? '?' : monthly(row.usd)),
    make('td', { class: row.state ? 'n' : 'n money' }, row.wasted === null ? '–' : money(row.wasted)));
}

function detail(row) {
  return make('tr', { class: 'detail', id: `detail-${row.place}` }, make('td', { colspan: COLUMNS },
    make('p', { class: 'why' }, sentence(say(row.because))),
    make('div', { class: 'facts' },
      list([
        [say(row.heading), say(row.progress), say(row.stepBecause), say(row.error)],
        ['Rule', say(row.rule), row.notes.map(say).join('; ')],
        ['Owner', say(row.owner), say(row.ownerSource)],
        ['Price', row.usd === null ? (row.share === null ? 'unknown' : `${monthly(row.share)} a month of its host\u2019s price`) : `${monthly(row.usd)} a month, ${exactly(row.usd)} an hour`,
          row.usd === null && row.share === null ? 'not counted in any total' : `${say(row.priceSource)}, ${say(row.priceDate)}`],
      ]),
      list([
        ['Idle for', row.idleFor === null ? '' : duration(row.idleFor)],
        ['Wasted', row.wasted === null ? '' : `${money(row.wasted)}${row.idleFor === null ? '' : ` since ${day(DATA.now - row.idleFor)}`}`],
        ['Last use', row.lastBusy === null ? 'none found' : ago(row.lastBusy)],
        ['Created', row.created === null ? 'unknown' : ago(row.created)],
        ['Changed', row.changed === null || row.changed === row.created ? '' : ago(row.changed)],
        ['Status', say(row.status)],
        ['Location', [say(row.cloud), account(row), say(row.region)].join(', ')],
      ])),
    proof(row), tags(row),
    list([['Name', copied(say(row.name))], ['ID', copied(say(row.id))]]), keep(row)));
}

const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.') : '');

// `Planning (22222222-2222-…)`, or the ID of an account without a known name.
const account = (row) => (row.accountName < 0 ? say(row.account) : `${say(row.accountName)} (${say(row.account)})`);

function list(entries) {
  return make('dl', {}, entries.filter(([, text]) => text).map(([name, text, ...notes]) => [
    make('dt', {}, name), make('dd', {}, typeof text === 'string' ? make('bdi', {}, text) : text, notes.filter(Boolean).map((note) => make('small', {}, sentence(note))))]));
}

function proof(row) {
  const found = signals(row);
  if (!found.length) return make('p', { class: 'dim' }, 'No signals were read.');
  const heads = ['Signal', 'Part', 'Role', 'Last 14 days', 'Points', 'Last busy', 'Peak', 'Data'];
  return make('div', { class: 'wide', role: 'region', 'aria-label': `Evidence for ${say(row.name)}`, tabindex: 0 }, make('table', { class: 'proof' },
    make('thead', {}, make('tr', {}, heads.map((text) => make('th', { scope: 'col', class: text === 'Points' || text === 'Peak' ? 'n' : null }, text)))),
    make('tbody', {}, found.map(signal))));
}

function signal(s) {
  const chart = !s.shape.length ? '–' : s.heart ? spark([], s.shape, described(s.shape, 'heartbeat'), 168) : spark(s.shape, [], described(s.shape, 'use'), 168);
  return make('tr', {}, make('th', { scope: 'row' }, s.signal), make('td', {}, s.subject || 'all'),
    make('td', {}, s.heart ? 'heartbeat' : 'activity'), make('td', {}, chart), make('td', { class: 'n' }, number(s.points)),
    make('td', {}, s.lastBusy === null ? '–' : moment(s.lastBusy)), make('td', { class: 'n' }, s.peak === null ? '–' : number(s.peak)),
    make('td', {}, s.complete ? 'complete' : make('b', { class: 'mark' }, 'incomplete')));
}

function tags(row) {
  if (row.tags === null) return make('p', {}, make('b', { class: 'mark' }, 'The tags couldn\u2019t be read.'));
  if (!row.tags.length) return make('p', { class: 'dim' }, 'No tags.');
  return make('ul', { class: 'tags', 'aria-label': 'Tags' }, row.tags.map(([key, value]) => make('li', {}, make('bdi', {}, say(key)), make('b', {}, make('bdi', {}, say(value))))));
}

function keep(row) {
  const lines = [DATA.keep, say(row.command)].filter(Boolean);
  return make('div', { class: 'keep' }, make('p', {}, 'To keep it, add this tag'), lines.map((text) => make('p', {}, copied(text))));
}

const copied = (text) => make('span', {}, make('code', {}, text), copier(text));

// Some pages may not use the clipboard; then the text is selected, to be copied by hand.
function copier(text) {
  const button = make('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${text}` }, 'Copy');
  button.addEventListener('click', () => {
    const done = () => { button.textContent = 'Copied'; };
    const marked = () => getSelection().selectAllChildren(button.previousSibling);
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, marked); else marked();
  });
  return button;
}
