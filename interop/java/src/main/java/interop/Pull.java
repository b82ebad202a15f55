package interop;

import java.util.Collections;
import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A lite pull consumer that takes all queues of a topic, reads them from the start and commits. */
final class Pull {
    private Pull() {}

    static void run(Options o) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(o.group());
        consumer.setNamesrvAddr(o.namesrv());
        consumer.setPollNameServerInterval(1000);
        consumer.setInstanceName(o.instance());
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(o.topic());
        consumer.assign(queues);
        Out.event("ready", "queues", queues.size());
        int expect = o.number("expect", 0);
        int count = 0;
        long end = System.currentTimeMillis() + o.number("seconds", 30) * 1000L;
        while (count < expect && System.currentTimeMillis() < end) {
            List<MessageExt> found = consumer.poll(500);
            for (MessageExt m : found == null ? Collections.<MessageExt>emptyList() : found) {
                Out.message("message", m);
                count++;
            }
        }
        consumer.commitSync();
        consumer.shutdown();
        Out.event("done", "count", count);
    }
}
