package interop;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** What a peer says to the test that started it: one JSON object a line on standard output. */
final class Out {
    private Out() {}

    static synchronized void event(String name, Object... pairs) {
        StringBuilder line = new StringBuilder("{\"event\":").append(quote(name));
        for (int i = 0; i < pairs.length; i += 2) {
            line.append(',').append(quote((String) pairs[i])).append(':').append(value(pairs[i + 1]));
        }
        System.out.println(line.append('}'));
        System.out.flush();
    }

    static void message(String name, MessageExt m) {
        event(name,
            "topic", m.getTopic(), "queue", m.getQueueId(), "offset", m.getQueueOffset(), "id", m.getMsgId(),
            "tags", m.getTags(), "keys", m.getKeys(), "reconsume_times", m.getReconsumeTimes(),
            "size", m.getBody().length, "body", new String(m.getBody(), 0, Math.min(64, m.getBody().length), StandardCharsets.UTF_8),
            "properties", new LinkedHashMap<>(m.getProperties()));
    }

    private static String value(Object v) {
        if (v == null || v instanceof Number || v instanceof Boolean) {
            return String.valueOf(v);
        }
        if (v instanceof Map) {
            StringBuilder map = new StringBuilder("{");
            for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet()) {
                map.append(map.length() > 1 ? "," : "").append(quote(e.getKey().toString())).append(':').append(value(e.getValue()));
            }
            return map.append('}').toString();
        }
        return quote(v.toString());
    }

    private static String quote(String s) {
        StringBuilder q = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                q.append('\\').append(c);
            } else if (c < 0x20) {
                q.append(String.format("\\u%04x", (int) c));
            } else {
                q.append(c);
            }
        }
        return q.append('"').toString();
    }
}
