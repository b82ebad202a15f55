package interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What Apache's own strategies answer: all queues, all members and a stranger (the last), and for each of these the
 * places of its queues in the list. tests/unit/client/allocation_samples.jsonl was made with
 * java -cp 'interop/java/target/classes:interop/java/target/dependency/*' interop.AllocationSamples
 */
public final class AllocationSamples {
    private static final String[] ROOMS = {"hz", "sh", "bj"};

    private AllocationSamples() {
    }

    public static void main(String[] arguments) {
        Random random = new Random(498);
        Map<String, AllocateMessageQueueStrategy> strategies = new LinkedHashMap<>();
        strategies.put("AVG", new AllocateMessageQueueAveragely());
        strategies.put("AVG_BY_CIRCLE", new AllocateMessageQueueAveragelyByCircle());
        strategies.put("CONSISTENT_HASH(10)", new AllocateMessageQueueConsistentHash());
        strategies.put("CONSISTENT_HASH(3)", new AllocateMessageQueueConsistentHash(3));
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new HashSet<>(Arrays.asList("hz", "sh")));
        strategies.put("MACHINE_ROOM(hz,sh)", room);
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("[@-]")[0];
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return clientId.split("[@-]")[0];
            }
        };
        strategies.put("NEARBY(AVG)", new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver));
        strategies.put("NEARBY(AVG_BY_CIRCLE)",
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), resolver));
        for (int sample = 0; sample < 40; sample++) {
            List<MessageQueue> queues = new ArrayList<>();
            int brokers = 1 + random.nextInt(4);
            for (int broker = 0; broker < brokers; broker++) {
                String name = ROOMS[random.nextInt(3)] + (random.nextInt(8) == 0 ? "-b" : "@b") + broker;
                int count = 1 + random.nextInt(random.nextInt(10) == 0 ? 40 : 6);
                for (int id = 0; id < count; id++) {
                    queues.add(new MessageQueue("T", name, id));
                }
            }
            List<String> clients = new ArrayList<>();
            int members = 1 + random.nextInt(7);
            for (int member = 0; member < members; member++) {
                clients.add(ROOMS[random.nextInt(3)] + "-10.0.0." + random.nextInt(256) + "@" + (1000 + member) + "#"
                    + random.nextInt(1 << 20));
            }
            Collections.sort(queues);
            Collections.sort(clients);
            List<String> everybody = new ArrayList<>(clients);
            everybody.add("hz-stranger");
            StringBuilder line = new StringBuilder("{\"queues\":" + texts(queues) + ",\"clients\":" + texts(everybody)
                + ",\"answers\":{");
            for (Map.Entry<String, AllocateMessageQueueStrategy> strategy : strategies.entrySet()) {
                List<List<Integer>> answers = new ArrayList<>();
                for (String me : everybody) {
                    List<Integer> places = new ArrayList<>();
                    for (MessageQueue mine : strategy.getValue()
                        .allocate("G", me, new ArrayList<>(queues), new ArrayList<>(clients))) {
                        places.add(queues.indexOf(mine));
                    }
                    answers.add(places);
                }
                line.append("\"" + strategy.getKey() + "\":" + answers.toString().replace(" ", "") + ",");
            }
            line.setLength(line.length() - 1);
            System.out.println(line.append("}}"));
        }
    }

    private static String texts(List<?> items) {
        StringBuilder text = new StringBuilder("[");
        for (Object item : items) {
            if (text.length() > 1) {
                text.append(',');
            }
            if (item instanceof MessageQueue) {
                MessageQueue queue = (MessageQueue) item;
                text.append('"').append(queue.getBrokerName()).append(':').append(queue.getQueueId()).append('"');
            } else {
                text.append('"').append(item).append('"');
            }
        }
        return text.append(']').toString();
    }
}
