package interop;

/**
 * Apache's Java client as a peer of a broker; the verbs and options of ../cpp/peer.py.
 *
 * <pre>java -cp "target/classes:target/dependency/*" interop.Peer send --namesrv HOST:PORT --topic T --count 10</pre>
 */
public final class Peer {
    private Peer() {}

    public static void main(String[] args) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "1000"); // 20 s is for production
            Options o = new Options(args);
            switch (args[0]) {
                case "send": Send.run(o, false); break;
                case "ordered": Send.run(o, true); break;
                case "consume": Consume.run(o); break;
                case "pull": Pull.run(o); break;
                default: throw new IllegalArgumentException("send, ordered, consume or pull, not " + args[0]);
            }
            System.exit(0);
        } catch (Exception e) {
            Out.event("error", "text", e.toString());
            e.printStackTrace();
            System.exit(1);
        }
    }
}
