package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages one by one, as one batch, or in order by a queue selector (number modulo 2).
 * With --keep-on a send that failed is told, and the next one follows.
 */
final class Send {
    private Send() {}

    static void run(Options o, boolean ordered) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interop_java_producer", o.hook());
        producer.setUseTLS(o.tls());
        producer.setNamesrvAddr(o.namesrv());
        producer.setPollNameServerInterval(o.number("poll-ms", 1000));
        producer.setInstanceName(o.instance());
        producer.setSendMsgTimeout(10_000);
        producer.setVipChannelEnabled(Boolean.parseBoolean(o.text("vip", "false")));
        producer.start();
        int count = o.number("count", 1);
        if (o.flag("batch")) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                batch.add(message(o, i));
            }
            sent(producer.send(batch));
        } else {
            for (int i = 0; i < count; i++) {
                try {
                    sent(ordered
                        ? producer.send(message(o, i), (queues, m, n) -> queues.get((int) n % 2), i)
                        : producer.send(message(o, i)));
                } catch (Exception failure) {
                    if (!o.flag("keep-on")) {
                        throw failure;
                    }
                    Out.event("failed", "number", i, "reason", String.valueOf(failure.getMessage()));
                }
                Thread.sleep(o.number("pause-ms", 0));
            }
        }
        producer.shutdown();
        Out.event("done");
    }

    private static Message message(Options o, int number) {
        String[] tags = o.text("tags", "").split(",");
        String name = o.text("prefix", "m") + number;
        int bodyBytes = o.number("body-bytes", 0);
        StringBuilder body = new StringBuilder(name);
        if (bodyBytes > 0) {
            body.append(' ');
            while (body.length() < bodyBytes) {
                body.append('x');
            }
        }
        Message message = new Message(o.topic(), tags[number % tags.length], "key-" + name, body.toString().getBytes(StandardCharsets.UTF_8));
        if (o.number("delay-level", 0) > 0) {
            message.setDelayTimeLevel(o.number("delay-level", 0));
        }
        return message;
    }

    private static void sent(SendResult r) {
        Out.event("sent", "status", r.getSendStatus(), "id", r.getMsgId(), "offset_id", r.getOffsetMsgId(),
            "queue", r.getMessageQueue().getQueueId(), "offset", r.getQueueOffset());
    }
}
