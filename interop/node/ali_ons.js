'use strict';
// npm `ali-ons` (pure JavaScript) as a peer; the verbs and options of ../cpp/peer.py.

const { Consumer, Producer, Message } = require('ali-ons');
const { event, bodyOf, tagOf, tally, run } = require('./events');

// Its half-minute timers are for production; a test wants to see a new route or member now.
const timers = { pollNameServerInteval: 1000, rebalanceInterval: 1000, heartbeatBrokerInterval: 5000 };
const quiet = { info() {}, debug() {}, warn(...a) { console.error(...a); }, error(...a) { console.error(...a); } };

const account = o => (o['access-key'] ? { accessKeyId: o['access-key'], accessKeySecret: o['secret-key'] } : {});

async function send(o) {
  const producer = new Producer({ httpclient: {}, nameSrv: o.namesrv, ...timers, ...account(o), producerGroup: 'interop_ali_ons_producer', logger: quiet });
  producer.on('error', err => console.error(err));
  await producer.ready();
  for (let i = 0; i < o.count; i++) {
    const message = new Message(o.topic, tagOf(o, i), bodyOf(o, i));
    message.keys = [ `key-${o.prefix}${i}` ];
    if (o['delay-level']) message.delayTimeLevel = o['delay-level'];
    const sent = await producer.send(message);
    event('sent', { status: sent.sendStatus, id: sent.msgId, offset: Number(sent.queueOffset) });
  }
  await producer.close();
  event('done');
}

async function consume(o) {
  const consumer = new Consumer({ httpclient: {}, nameSrv: o.namesrv, ...timers, ...account(o), consumerGroup: o.group, logger: quiet });
  consumer.on('error', err => console.error(err));
  const seen = tally(o);
  consumer.subscribe(o.topic, o.expression, async message => {
    const body = message.body.toString();
    const accepted = seen.accepts(body);
    event(accepted ? 'message' : 'refused', {
      topic: message.topic, queue: message.queueId, offset: Number(message.queueOffset), id: message.msgId,
      tags: message.tags || null, keys: String(message.keys || '') || null, reconsume_times: message.reconsumeTimes,
      size: message.body.length, body: body.slice(0, 64),
    });
    return accepted ? undefined : Consumer.ACTION_RETRY;
  });
  await consumer.ready();
  event('ready');
  await seen.finished;
  await new Promise(resolve => setTimeout(resolve, 300));
  await consumer.close();
  event('done', { count: seen.done.size });
}

run({ send, consume });
