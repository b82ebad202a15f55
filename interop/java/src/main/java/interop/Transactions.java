package interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions: `send` sends `--count` messages m0, m1 ... and says of the n-th the n-th word of `--local` (commit,
 * rollback, unknown, raise; over and over); when asked it says the n-th word of `--check`. Then it stays for
 * `--seconds`. `wait` only answers.
 */
public final class Transactions {
    private Transactions() {}

    public static void main(String[] args) {
        try {
            run(new Options(args), args[0].equals("send"));
            System.exit(0);
        } catch (Exception e) {
            Out.event("error", "text", e.toString());
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(Options o, boolean sends) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(o.group());
        producer.setNamesrvAddr(o.namesrv());
        producer.setInstanceName(o.instance());
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object number) {
                return state(o.text("local", "commit"), (int) number);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                Out.message("check", m);
                int number = Integer.parseInt(new String(m.getBody(), StandardCharsets.UTF_8).substring(1));
                return state(o.text("check", "commit"), number);
            }
        });
        producer.start();
        Out.event("ready");
        for (int i = 0; sends && i < o.number("count", 1); i++) {
            Message message = new Message(o.topic(), "TagT", "key-" + i, ("m" + i).getBytes(StandardCharsets.UTF_8));
            if (o.number("immune-s", 0) > 0) {
                message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, o.text("immune-s", ""));
            }
            if (o.number("delay-level", 0) > 0) {
                message.setDelayTimeLevel(o.number("delay-level", 0));
            }
            TransactionSendResult r = producer.sendMessageInTransaction(message, i);
            Out.event("sent", "status", r.getSendStatus(), "state", r.getLocalTransactionState(), "id", r.getMsgId(),
                "queue", r.getMessageQueue().getQueueId());
        }
        Thread.sleep(1000L * o.number("seconds", 0));
        producer.shutdown();
        Out.event("done");
    }

    private static LocalTransactionState state(String words, int number) {
        String[] each = words.split(",");
        switch (each[number % each.length]) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            case "unknown": return LocalTransactionState.UNKNOW;
            default: throw new IllegalStateException("boom");
        }
    }
}
