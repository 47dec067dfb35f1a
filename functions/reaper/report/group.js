// Groups of the table: by owner, account, kind or a tag, the most expensive first. A closed group is its heading alone.
const GROUPS = { owner: (row) => say(row.owner), account, kind: (row) => say(row.kind) };
const UNREADABLE = 'tags couldn\u2019t be read';
const compare = (a, b) => a.localeCompare(b, 'en', { numeric: true });

// Every tag key, whatever its case: those of the policy's report.tags, then the most frequent.
function tagKeys() {
  const counts = new Map(), names = new Map(DATA.tags.map((key) => [key.toLowerCase(), key]));
  for (const row of ROWS) for (const [key] of row.tags ?? []) counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const [key] of [...counts].sort((a, b) => b[1] - a[1])) if (!names.has(say(key).toLowerCase())) names.set(say(key).toLowerCase(), say(key));
  return [...names.values()];
}

// How to name a row's group; null if there are no groups.
function grouping(by) {
  if (!by.startsWith('tag:')) return GROUPS[by] ?? null;
  const key = by.slice(4), same = new Set(DATA.words.flatMap((word, place) => (word.toLowerCase() === key.toLowerCase() ? [place] : [])));
  return ({ tags }) => {
    if (tags === null) return UNREADABLE;
    const values = new Set(tags.filter(([word]) => same.has(word)).map(([, value]) => say(value)));
    return [...values].join(', ') || `no ${key}`;
  };
}

// The rows by group, with what is idle in each.
function groupsOf(rows, name) {
  const groups = new Map();
  for (const row of rows) {
    const text = name(row), group = groups.get(text) ?? { text, rows: [], idle: 0, unpriced: 0, usd: 0, all: 0, unknown: 0 };
    groups.set(text, group);
    group.rows.push(row);
    group.all += row.usd ?? 0;
    group.unknown += row.usd === null && DATA.states[row.state] !== 'exempt';
    if (row.state) continue;
    group.idle += 1;
    group.unpriced += row.usd === null;
    group.usd += row.usd ?? 0;
  }
  return [...groups.values()].sort((a, b) => b.usd - a.usd || b.idle - a.idle || b.rows.length - a.rows.length || compare(a.text, b.text));
}

// What a group costs, and what of it is idle: `idle: $336 of at least $2,100 a month`.
function costs({ usd, all, unknown }) {
  const whole = `${unknown ? 'at least ' : ''}${monthly(all)} a month`;
  return usd > 0 ? `idle: ${usd < all || unknown ? `${monthly(usd)} of ${whole}` : whole}` : whole;
}

function heading(group, place, open, continued) {
  const { rows, idle, unpriced, usd, all } = group;
  const counts = [`${number(rows.length)} resource${rows.length === 1 ? '' : 's'}`, idle && `${number(idle)} idle`, unpriced && `price of ${number(unpriced)} unknown`].filter(Boolean);
  return make('tr', { class: 'group' }, make('th', { scope: 'rowgroup', colspan: COLUMNS },
    make('button', { type: 'button', class: 'open', 'aria-expanded': String(open), 'data-group': place },
      named(group.text, { class: 'name' }, 80), make('span', { class: 'dim' }, `${continued ? 'continued, ' : ''}${counts.join(', ')}`), all > 0 && make('span', { class: usd > 0 ? 'usd money' : 'usd' }, costs(group)))));
}
