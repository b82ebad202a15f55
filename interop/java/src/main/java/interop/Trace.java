package interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Traces: `send` and `consume` leave them, `decode` says what Apache's client reads in `--hex`. */
public final class Trace {
    private Trace() {}

    public static void main(String[] args) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
            Options o = new Options(args);
            switch (args[0]) {
                case "send": send(o); break;
                case "consume": consume(o); break;
                case "decode": decode(o); break;
                default: throw new IllegalArgumentException(args[0]);
            }
            Out.event("done");
            System.exit(0);
        } catch (Exception e) {
            Out.event("error", "text", e.toString());
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void send(Options o) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("java_traced", true);
        producer.setNamesrvAddr(o.namesrv());
        producer.setInstanceName(o.instance());
        producer.setVipChannelEnabled(false);
        producer.start();
        for (int i = 0; i < o.number("count", 3); i++) {
            byte[] body = ("m" + i).getBytes(StandardCharsets.UTF_8);
            Out.event("sent", "id", producer.send(new Message(o.topic(), "TagA", "key-m" + i, body)).getMsgId());
        }
        Thread.sleep(1500); // it collects for half a second
        producer.shutdown();
    }

    private static void consume(Options o) throws Exception {
        CountDownLatch left = new CountDownLatch(o.number("expect", 3));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(o.group(), true);
        consumer.setNamesrvAddr(o.namesrv());
        consumer.setInstanceName(o.instance());
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(o.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(o.number("seconds", 40), TimeUnit.SECONDS);
        Thread.sleep(1500);
        consumer.shutdown();
    }

    private static void decode(Options o) {
        String hex = o.text("hex", "");
        byte[] body = new byte[hex.length() / 2];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        for (TraceContext c : TraceDataEncoder.decoderFromTraceDataString(new String(body, StandardCharsets.UTF_8))) {
            TraceBean b = c.getTraceBeans().get(0);
            Out.event("trace", "kind", c.getTraceType().name(), "time_ms", c.getTimeStamp(), "region", c.getRegionId(),
                "group", c.getGroupName(), "success", c.isSuccess(), "cost_ms", c.getCostTime(),
                "request_id", c.getRequestId(), "code", c.getContextCode(), "topic", b.getTopic(), "id", b.getMsgId(),
                "offset_id", b.getOffsetMsgId(), "tags", b.getTags(), "keys", b.getKeys(), "store_host", b.getStoreHost(),
                "body_bytes", b.getBodyLength(), "retries", b.getRetryTimes());
        }
    }
}
