'use strict';
// npm `rocketmq-nodejs` (a native addon over the C++ client) as a peer; the verbs and options of ../cpp/peer.py.

const { Producer, PushConsumer } = require('rocketmq-nodejs');
const { event, bodyOf, tagOf, tally, run } = require('./events');

const logs = { logFileNum: 1, logFileSize: 1 << 20, logLevel: 'warn' }; // under $HOME/logs

async function send(o) {
  const producer = new Producer('interop_nodejs_producer', { nameServer: o.namesrv, sendMessageTimeout: 10000, ...logs });
  await producer.start();
  for (let i = 0; i < o.count; i++) {
    const sent = await producer.send(o.topic, bodyOf(o, i), { keys: `key-${o.prefix}${i}`, tags: tagOf(o, i) });
    event('sent', { status: sent.statusStr, id: sent.msgId, offset: sent.offset });
  }
  await producer.shutdown();
  event('done');
}

async function consume(o) {
  const consumer = new PushConsumer(o.group, { nameServer: o.namesrv, threadCount: 2, ...logs });
  const seen = tally(o);
  consumer.subscribe(o.topic, o.expression);
  consumer.on('message', (message, ack) => {
    const accepted = seen.accepts(message.body);
    event(accepted ? 'message' : 'refused', {
      topic: message.topic, id: message.msgId, tags: message.tags || null, keys: message.keys || null,
      size: Buffer.byteLength(message.body), body: message.body.slice(0, 64), fields: Object.keys(message),
    });
    ack.done(accepted);
  });
  await consumer.start();
  event('ready');
  await seen.finished;
  await new Promise(resolve => setTimeout(resolve, 300));
  await consumer.shutdown();
  event('done', { count: seen.done.size });
}

run({ send, consume });
