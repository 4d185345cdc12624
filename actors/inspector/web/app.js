// The inspection page: asks /actors once a second and shows the answer; /jobs, too, once it is signed in. Everything from
// the node is set as text, never as markup.
'use strict';

const period = 1000;
let before = null;
let api = null;
let signedIn = true; // until the node says otherwise
let whyNot = 'The address that "kcx dashboard" prints shows the jobs, too';

const byId = (id) => document.getElementById(id);

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return `${unit === 0 ? count : count.toFixed(1)} ${units[unit]}`;
}

// Parents before children, each with its depth. An actor whose parent is no listed actor is a root.
function tree(actors) {
  const ids = new Set(actors.map((each) => each.id));
  const children = new Map();
  for (const each of actors) {
    const parent = ids.has(each.parent) && each.parent !== each.id ? each.parent : 0;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(each);
  }
  const rows = [];
  const visit = (id, lead) => {
    const list = children.get(id) || [];
    list.forEach((each, index) => {
      const last = index === list.length - 1;
      rows.push({ actor: each, branch: id === 0 ? '' : lead + (last ? '└ ' : '├ ') });
      visit(each.id, id === 0 ? '' : lead + (last ? '  ' : '│ '));
    });
  };
  visit(0, '');
  return rows;
}

function words(status) {
  if (status === null) return '';
  return Object.entries(status)
    .map(([key, value]) => `${key.replaceAll('_', ' ')} ${typeof value === 'object' ? JSON.stringify(value) : value}`)
    .join(' · ');
}

function row({ actor, branch }, earlier, seconds) {
  const line = document.createElement('tr');
  const name = element('td');
  name.append(element('span', branch, 'branch'), actor.name + ' ', element('span', `#${actor.id}`, 'id'));
  const rate = earlier && seconds > 0 ? (actor.handled - earlier.handled) / seconds : 0;
  // A handler that is still at work is not in busy_ms yet.
  const stuck = actor.in_handler_ms !== null && actor.in_handler_ms >= period;
  const share = stuck ? 1 : earlier && seconds > 0 ? Math.min(1, (actor.busy_ms - earlier.busy_ms) / 1000 / seconds) : 0;
  const busy = element('td');
  const meter = document.createElement('meter');
  meter.max = 1;
  meter.value = share;
  busy.append(meter, ` ${Math.round(share * 100)} %`);
  line.append(
    name,
    element('td', actor.mailbox, actor.mailbox > 100 ? 'number warn' : 'number'),
    element('td', actor.handled.toLocaleString('en'), 'number'),
    element('td', rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en'), 'number'),
    busy,
    element('td', duration(actor.longest_ms), 'number'),
    element('td', duration(actor.in_handler_ms), stuck ? 'number bad' : 'number'),
    element('td', actor.restarts, actor.restarts > 0 ? 'number warn' : 'number'),
    element('td', actor.thread),
    element('td', words(actor.status), 'status'),
  );
  return line;
}

function showQueue(queue, now) {
  const tiles = byId('states');
  if (queue === null) {
    tiles.replaceChildren();
    byId('queue').textContent = 'No reader answers: the queue cannot be shown.';
    return;
  }
  const order = ['scheduled', 'blocked', 'queued', 'running', 'cancelling', 'succeeded', 'failed', 'timed_out',
    'cancelled', 'interrupted', 'skipped'];
  tiles.replaceChildren(...order.map((state) => {
    const count = queue.jobs[state] ?? 0;
    const tile = element('div', undefined, `tile ${state}${count === 0 ? ' none' : ''}`);
    tile.append(element('b', count.toLocaleString('en')), element('span', state.replace('_', ' ')));
    return tile;
  }));
  const oldest = queue.oldest_queued_at ? duration(Math.max(0, now - Date.parse(queue.oldest_queued_at))) : '–';
  byId('queue').textContent = `Oldest queued job waits ${oldest} · database ${bytes(queue.database_bytes)}`
    + ` · write-ahead log ${bytes(queue.wal_bytes)}`;
}

function show(answer) {
  const now = Date.parse(answer.now);
  const node = answer.node;
  byId('version').textContent = node.version ?? '';
  const up = node.started_at ? `up ${duration(now - Date.parse(node.started_at))}` : '';
  byId('node').textContent = [node.pid ? `process ${node.pid}` : '', up, node.slots ? `${node.slots} slots` : ''].filter(Boolean).join(' · ');
  showQueue(answer.queue, now);
  const seconds = before ? (now - before.now) / 1000 : 0;
  byId('actors').replaceChildren(
    ...tree(answer.actors).map((each) => row(each, before?.actors.get(each.actor.id), seconds)));
  api = node.http ?? null;
  before = { now, actors: new Map(answer.actors.map((each) => [each.id, each])) };
}

// Where the API is for this browser: under the name by which it reached this page, for which its cookie holds.
function logAddress(job) {
  const address = new URL(`/v1/jobs/${job.id}/log`, api);
  address.hostname = location.hostname;
  return address.href;
}

// The name, or what the job runs; cut by the style sheet where it is long, and whole in its tooltip.
function nameCell(job) {
  const command = Array.isArray(job.command) ? job.command.join(' ') : job.command;
  const text = job.name || command || job.steps?.map((step) => step.name).join(', ') || '';
  const cell = element('td', text, job.name ? 'name' : 'name command');
  cell.title = text;
  return cell;
}

function jobRow(job) {
  const line = document.createElement('tr');
  const log = element('td');
  if (api && job.attempt > 0) {
    const link = element('a', 'log');
    link.href = logAddress(job);
    log.append(link);
  }
  line.append(
    element('td', job.id, 'number'),
    element('td', job.state.replace('_', ' '), `state ${job.state}`),
    element('td', job.reason ?? ''),
    nameCell(job),
    element('td', job.project ?? ''),
    element('td', job.queue ?? ''),
    element('td', duration(job.duration_s === null ? null : job.duration_s * 1000), 'number'),
    element('td', new Date(job.created_at).toLocaleString()),
    log,
  );
  return line;
}

function showSession(words, isIn) {
  signedIn = isIn;
  byId('session').textContent = words;
  byId('sign-out').hidden = !isIn;
  byId('jobs-section').hidden = !isIn;
}

async function problemText(answer) {
  const problem = await answer.json().catch(() => null);
  return problem?.detail ?? `the node answers ${answer.status}`;
}

// An address from `kcx dashboard` ends in a one-time code behind the #, which browsers send nowhere by themselves.
async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code === null) return;
  history.replaceState(null, '', location.pathname);
  const answer = await fetch('/session', { method: 'POST', headers: { Authorization: `Bearer ${code}` } });
  // A session from before goes on, whatever became of the code.
  signedIn = true;
  if (!answer.ok) whyNot = `Not signed in: ${await problemText(answer)}`;
}

async function signOut() {
  const answer = await fetch('/session', { method: 'DELETE' });
  if (answer.ok || answer.status === 401) showSession('Signed out', false);
}

async function pollJobs() {
  if (!signedIn) return;
  const answer = await fetch('/jobs', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (answer.status === 401 || answer.status === 403) {
    showSession(whyNot, false);
    return;
  }
  if (!answer.ok) throw new Error(await problemText(answer));
  const { caller, items } = await answer.json();
  showSession(`Signed in as ${caller}`, true);
  byId('jobs').replaceChildren(...items.map(jobRow));
}

async function poll() {
  const link = byId('link');
  try {
    const answer = await fetch('/actors', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`the node answers ${answer.status}`);
    show(await answer.json());
    await pollJobs();
    link.textContent = 'live';
    link.className = 'live';
  } catch (failure) {
    link.textContent = `no answer since ${new Date().toLocaleTimeString()}: ${failure.message}`;
    link.className = 'lost';
    before = null;
  }
  setTimeout(poll, document.hidden ? 5 * period : period);
}

byId('sign-out').addEventListener('click', signOut);
window.addEventListener('hashchange', signIn);
signIn().catch((failure) => { whyNot = `Not signed in: ${failure.message}`; }).finally(poll);
