package interop;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The command line of a peer: `--name value` pairs and a few flags, as in ../cpp/peer.py. */
final class Options {
    private static final Set<String> FLAGS = Set.of("fail-first", "orderly", "batch");
    private final Map<String, String> values = new HashMap<>();

    Options(String[] args) {
        for (int i = 1; i < args.length; i++) {
            String name = args[i].substring(2);
            values.put(name, FLAGS.contains(name) ? "true" : args[++i]);
        }
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(text(name, String.valueOf(otherwise)));
    }

    boolean flag(String name) {
        return values.containsKey(name);
    }

    String namesrv() {
        return text("namesrv", "127.0.0.1:9876");
    }

    String topic() {
        return text("topic", "TopicTest");
    }

    String group() {
        return text("group", "interop_java");
    }

    /** A name unlike every other started on this machine: peers of one group must not look like one client. */
    String instance() {
        return ProcessHandle.current().pid() + "";
    }
}
