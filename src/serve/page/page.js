'use strict';
const $ = id => document.getElementById(id);
const messages = []; // {role, content} of the chat
let running = null;  // the AbortController of the request under way

// --- the server ----------------------------------------------------------------------------------------------------------

function headers() {
  const key = $('key').value.trim();
  return key ? {'Content-Type': 'application/json', Authorization: 'Bearer ' + key} : {'Content-Type': 'application/json'};
}

async function reasonOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return 'The server answered with status ' + response.status + '.';
  }
}

// The events of a stream, one JSON value after the other. Now and then the page gets time to draw and to see a click on Stop.
async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = '', rested = performance.now();
  for (;;) {
    if (performance.now() - rested > 30) {
      await new Promise(resolve => setTimeout(resolve));
      rested = performance.now();
    }
    const {value, done} = await reader.read();
    if (done) return;
    text += decoder.decode(value, {stream: true});
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const line = text.slice(0, end);
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}

function settings(chat) {
  const asked = {stream: true, stream_options: {include_usage: true}};
  const number = (id, name) => { if ($(id).value !== '') asked[name] = Number($(id).value); };
  number('temperature', 'temperature');
  number('top-p', 'top_p');
  number('top-k', 'top_k');
  number('most', 'max_tokens');
  number('seed', 'seed');
  const stops = $('stops').value.split('\n').filter(line => line);
  if (stops.length) asked.stop = stops;
  if ($('probable').checked && chat) asked.logprobs = true, asked.top_logprobs = 5;
  if ($('probable').checked && !chat) asked.logprobs = 5;
  return asked;
}

// Tokens of an event: {text, probability, others: [[text, probability], ...]}; of one without probabilities its text alone.
function tokensOf(choice, chat) {
  const text = chat ? choice.delta.content || '' : choice.text;
  const given = choice.logprobs;
  if (!given) return text ? [{text}] : [];
  if (chat)
    return given.content.map((entry, i) => ({
      text: given.content.length === 1 ? text : i === 0 ? text : '', name: entry.token, probability: Math.exp(entry.logprob),
      others: entry.top_logprobs.map(other => [other.token, Math.exp(other.logprob)])
    }));
  return given.tokens.map((token, i) => ({
    text: given.tokens.length === 1 || i === 0 ? text : '', name: token, probability: Math.exp(given.token_logprobs[i]),
    others: Object.entries(given.top_logprobs[i] || {}).map(([name, value]) => [name, Math.exp(value)])
  }));
}

// --- what is shown --------------------------------------------------------------------------------------------------------

function levelOf(probability) {
  return probability >= 0.7 ? '' : probability >= 0.4 ? ' p1' : probability >= 0.15 ? ' p2' : probability >= 0.03 ? ' p3' : ' p4';
}

function show(token, where) {
  if (!token.text) return;
  if (!token.others) {
    where.append(token.text);
    return;
  }
  const span = document.createElement('span');
  span.className = 'token' + levelOf(token.probability);
  span.textContent = token.text;
  span.token = token;
  where.append(span);
}

const readable = text => text.replace(/\n/g, '\u21b5').replace(/\t/g, '\u21e5').replace(/ /g, '\u00b7') || '(nothing)';

function showTip(span) {
  const table = document.createElement('table'), {name, probability, others} = span.token;
  const rows = others.some(([other]) => other === name) ? others : [...others, [name, probability]];
  for (const [other, value] of rows) {
    const row = table.insertRow();
    row.insertCell().textContent = readable(other);
    row.insertCell().textContent = (100 * value).toFixed(value < 0.1 ? 2 : 1) + ' %';
    if (other === name) row.className = 'chosen';
  }
  const tip = $('tip'), box = span.getBoundingClientRect();
  tip.replaceChildren(table);
  tip.hidden = false;
  tip.style.left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + scrollX + 'px';
  const below = box.bottom + 6 + tip.offsetHeight <= innerHeight;
  tip.style.top = (below ? box.bottom + 6 : Math.max(0, box.top - tip.offsetHeight - 6)) + scrollY + 'px';
}

function pointAt(event) {
  const span = event.target.closest && event.target.closest('.token');
  if (span) showTip(span);
  else $('tip').hidden = true;
}
document.addEventListener('pointerover', pointAt);
document.addEventListener('click', pointAt);
document.addEventListener('keydown', event => { if (event.key === 'Escape') $('tip').hidden = true; });

function complain(sentence) {
  $('problem').textContent = sentence;
  $('problem').hidden = !sentence;
}

function setRunning(controller) {
  running = controller;
  $('stop').disabled = !controller;
  for (const id of ['send', 'run', 'clear']) $(id).disabled = !!controller;
}

// A text that grows is followed until the reader scrolls up.
let following = true;
addEventListener('scroll', () => { following = innerHeight + scrollY >= document.documentElement.scrollHeight - 80; });

// Sends a request and shows its text as it comes. Returns the text.
async function write(path, body, chat, where) {
  const controller = new AbortController(), begin = performance.now();
  let text = '', count = 0, first = 0, usage = null, end = '';
  complain('');
  setRunning(controller);
  following = true;
  const follower = setInterval(() => { if (following) scrollTo(0, document.documentElement.scrollHeight); }, 100);
  $('state').textContent = 'waiting';
  const progress = () => {
    const now = performance.now(), tokens = usage ? usage.completion_tokens : count;
    // What comes in one piece was not written in no time: then the whole request counts.
    const [since, written] = now - first > 50 ? [first, tokens - 1] : [begin, tokens];
    const rate = tokens > 1 ? ', ' + (1e3 * written / (now - since)).toFixed(1) + ' tokens/s' : '';
    $('state').textContent = tokens + (tokens === 1 ? ' token' : ' tokens') + rate +
      (first ? ', first after ' + Math.round(first - begin) + ' ms' : '') + (end ? ', ' + end : '');
  };
  try {
    const response = await fetch(path, {method: 'POST', headers: headers(), body: JSON.stringify(body), signal: controller.signal});
    if (!response.ok) throw new Error(await reasonOf(response));
    for await (const event of eventsOf(response)) {
      if (event.usage) usage = event.usage;
      for (const choice of event.choices) {
        for (const token of tokensOf(choice, chat)) {
          first = first || performance.now();
          text += token.text;
          count++;
          show(token, where);
        }
        if (choice.finish_reason) end = choice.finish_reason === 'stop' ? 'the text ended' : 'cut at the limit';
      }
      if (!usage || !end) progress();
    }
    progress();
  } catch (problem) {
    end = controller.signal.aborted ? 'stopped' : '';
    if (controller.signal.aborted) progress();
    else complain(problem.message), $('state').textContent = '';
  }
  clearInterval(follower);
  setRunning(null);
  return text;
}

// --- chat -------------------------------------------------------------------------------------------------------------------

function addMessage(role, content) {
  const box = document.createElement('div'), who = document.createElement('div'), said = document.createElement('div');
  box.className = 'message ' + role;
  who.className = 'who';
  who.textContent = role === 'user' ? 'You' : 'Model';
  said.className = 'said';
  said.textContent = content;
  box.append(who, said);
  $('messages').append(box);
  return said;
}

async function ask(event) {
  event.preventDefault();
  const question = $('question').value.trim();
  if (!question || running) return;
  messages.push({role: 'user', content: question});
  addMessage('user', question);
  $('question').value = '';
  const system = $('system').value.trim();
  const said = addMessage('assistant', '');
  const all = system ? [{role: 'system', content: system}, ...messages] : messages;
  const answer = await write('v1/chat/completions', {...settings(true), messages: all}, true, said);
  if (answer) messages.push({role: 'assistant', content: answer});
  if (!answer) { // refused, stopped, or ended at once: the question can be sent again
    said.parentNode.remove();
    $('messages').lastChild.remove();
    messages.pop();
    $('question').value = question;
  }
  $('question').focus();
}
$('ask').addEventListener('submit', ask);
$('question').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) ask(event);
});
$('clear').addEventListener('click', () => {
  messages.length = 0;
  $('messages').replaceChildren();
  complain('');
  $('state').textContent = '';
});

// --- completion ---------------------------------------------------------------------------------------------------------------

$('continue').addEventListener('submit', async event => {
  event.preventDefault();
  if (running) return;
  $('result').replaceChildren($('prompt').value);
  await write('v1/completions', {...settings(false), prompt: $('prompt').value}, false, $('result'));
});

// --- the page -------------------------------------------------------------------------------------------------------------------

$('stop').addEventListener('click', () => { if (running) running.abort(); });

function choose(chat) {
  $('chat').hidden = !chat;
  $('text').hidden = chat;
  $('tab-chat').setAttribute('aria-selected', chat);
  $('tab-text').setAttribute('aria-selected', !chat);
}
$('tab-chat').addEventListener('click', () => choose(true));
$('tab-text').addEventListener('click', () => choose(false));

// A model without a chat template begins with plain completion.
async function begin() {
  if (innerWidth <= 760) $('settings').open = false;
  try {
    const response = await fetch('props', {headers: headers()});
    if (response.status === 401) return complain('This server needs an API key: enter it in the settings.'), $('settings').open = true;
    const props = await response.json();
    $('model').textContent = props.model_alias;
    document.title = props.model_alias + ' \u2013 Crosshead';
    $('most').max = props.default_generation_settings.n_ctx;
    choose(props.chat_template !== '');
  } catch {
    complain('The server does not answer.');
  }
}
$('key').addEventListener('change', () => { complain(''); begin(); });
begin();
