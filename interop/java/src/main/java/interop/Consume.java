package interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A push consumer that ends when it has accepted `--expect` different messages or its time is over. */
final class Consume {
    private final Options options;
    private final Set<String> done = ConcurrentHashMap.newKeySet();
    private final Set<String> refused = ConcurrentHashMap.newKeySet();
    private final CountDownLatch finished = new CountDownLatch(1);

    private Consume(Options options) {
        this.options = options;
    }

    static void run(Options o) throws Exception {
        new Consume(o).run();
    }

    private void run() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.group(), options.hook(), new AllocateMessageQueueAveragely());
        consumer.setUseTLS(options.tls());
        consumer.setNamesrvAddr(options.namesrv());
        consumer.setPollNameServerInterval(1000);
        consumer.setMqClientApiTimeout(30_000); // a JVM that has just started on a busy machine
        consumer.setInstanceName(options.instance());
        consumer.setVipChannelEnabled(Boolean.parseBoolean(options.text("vip", "false")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setSuspendCurrentQueueTimeMillis(200);
        if (options.flag("sql")) {
            consumer.subscribe(options.topic(), MessageSelector.bySql(options.text("sql", "")));
        } else {
            consumer.subscribe(options.topic(), options.text("expression", "*"));
        }
        if (options.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                accepts(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                accepts(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        Out.event("ready");
        finished.await(options.number("seconds", 30), TimeUnit.SECONDS);
        Thread.sleep(300);
        consumer.shutdown();
        Out.event("done", "count", done.size());
    }

    private boolean accepts(List<MessageExt> messages) {
        boolean all = true;
        for (MessageExt m : messages) {
            String name = new String(m.getBody(), StandardCharsets.UTF_8).split(" ")[0];
            if (options.flag("fail-first") && refused.add(name)) {
                Out.message("refused", m);
                all = false;
            } else {
                Out.message("message", m);
                done.add(name);
            }
        }
        if (options.number("expect", 0) > 0 && done.size() >= options.number("expect", 0)) {
            finished.countDown();
        }
        return all;
    }
}
