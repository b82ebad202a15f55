package interop;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** The command line of a peer: `--name value` pairs and a few flags, as in ../cpp/peer.py. */
final class Options {
    private static final Set<String> FLAGS = Set.of("fail-first", "orderly", "batch", "keep-on");
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

    /** Signs every request, if an account was named. */
    RPCHook hook() {
        String key = text("access-key", "");
        return key.isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(key, text("secret-key", "")));
    }

    boolean tls() {
        return Boolean.parseBoolean(text("tls", "false"));
    }

    /** A name unlike every other started on this machine: peers of one group must not look like one client. */
    String instance() {
        return ProcessHandle.current().pid() + "";
    }
}
