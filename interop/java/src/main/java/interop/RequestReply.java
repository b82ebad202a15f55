package interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Questions and answers: `ask` sends `--count` of them, `answer` answers so many. */
public final class RequestReply {
    private RequestReply() {}

    public static void main(String[] args) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
            Options o = new Options(args);
            if (args[0].equals("ask")) {
                ask(o);
            } else {
                answer(o);
            }
            System.exit(0);
        } catch (Exception e) {
            Out.event("error", "text", e.toString());
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static DefaultMQProducer producer(Options o, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(o.namesrv());
        producer.setInstanceName(group + o.instance());
        producer.setVipChannelEnabled(false);
        producer.start();
        return producer;
    }

    private static void ask(Options o) throws Exception {
        DefaultMQProducer producer = producer(o, "java_asking");
        for (int i = 0; i < o.number("count", 1); i++) {
            String name = "q" + i + " ".repeat(o.number("body-bytes", 0));
            Message question = new Message(o.topic(), "TagQ", "key-" + i, name.getBytes(StandardCharsets.UTF_8));
            try {
                Message reply = producer.request(question, o.number("timeout-ms", 15000));
                Out.event("answer", "body", new String(reply.getBody(), StandardCharsets.UTF_8).trim(),
                    "size", reply.getBody().length);
            } catch (RequestTimeoutException e) {
                Out.event("timeout", "text", e.toString());
            }
        }
        producer.shutdown();
        Out.event("done");
    }

    private static void answer(Options o) throws Exception {
        DefaultMQProducer producer = producer(o, "java_answering");
        CountDownLatch left = new CountDownLatch(o.number("expect", 1));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(o.group());
        consumer.setNamesrvAddr(o.namesrv());
        consumer.setInstanceName("answer" + o.instance());
        consumer.setVipChannelEnabled(false);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(o.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                try {
                    byte[] body = ("java answers " + new String(m.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                    producer.send(MessageUtil.createReplyMessage(m, body), 5000);
                    Out.message("answered", m);
                } catch (Exception e) {
                    Out.event("error", "text", e.toString());
                }
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Out.event("ready");
        left.await(o.number("seconds", 40), TimeUnit.SECONDS);
        Thread.sleep(200);
        consumer.shutdown();
        producer.shutdown();
        Out.event("done");
    }
}
