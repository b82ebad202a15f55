'use strict';
// What a peer says to the test that started it: one JSON object a line; and how it reads its command line.

const FLAGS = new Set(['fail-first', 'orderly', 'batch']);

exports.event = (name, values = {}) => {
  process.stdout.write(JSON.stringify({ event: name, ...values }) + '\n');
};

exports.options = argv => {
  const found = {
    verb: argv[0], group: 'interop_node', count: '1', tags: '', prefix: 'm', 'body-bytes': '0',
    'delay-level': '0', expression: '*', expect: '0', seconds: '30',
  };
  for (let i = 1; i < argv.length; i++) {
    const name = argv[i].replace(/^--/, '');
    found[name] = FLAGS.has(name) ? true : argv[++i];
  }
  for (const name of ['count', 'body-bytes', 'delay-level', 'expect', 'seconds']) found[name] = Number(found[name]);
  found.tagList = found.tags ? found.tags.split(',') : [];
  return found;
};

exports.bodyOf = (o, number) => {
  const name = `${o.prefix}${number}`;
  return o['body-bytes'] ? `${name} `.padEnd(o['body-bytes'], 'x') : name;
};

exports.tagOf = (o, number) => (o.tagList.length ? o.tagList[number % o.tagList.length] : '');

// Resolves when `expect` different messages were acknowledged or the time is over.
exports.tally = o => {
  const done = new Set();
  const refused = new Set();
  let finish;
  const finished = new Promise(resolve => { finish = resolve; });
  setTimeout(finish, o.seconds * 1000);
  return {
    finished,
    done,
    accepts(body) {
      const name = body.split(' ')[0];
      if (o['fail-first'] && !refused.has(name)) {
        refused.add(name);
        return false;
      }
      done.add(name);
      if (o.expect && done.size >= o.expect) finish();
      return true;
    },
  };
};

exports.run = verbs => {
  const o = exports.options(process.argv.slice(2));
  Promise.resolve(verbs[o.verb](o)).then(
    // Not process.exit: the native addon sometimes hangs in its destructors, and everything is said.
    () => process.stdout.write('', () => process.kill(process.pid, 'SIGKILL')),
    err => {
      exports.event('error', { text: String(err && err.stack || err) });
      process.exit(1);
    });
};
