package interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Apache's mqadmin, one command after the other in one JVM: words with tabs between them in, what it printed out. */
public final class Mqadmin {
    private Mqadmin() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.logUseSlf4j", "true");
        PrintStream stdout = System.out;
        Out.event("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream into = new PrintStream(printed, true, "UTF-8");
            PrintStream stderr = System.err;
            System.setOut(into);
            System.setErr(into);
            try {
                MQAdminStartup.main0(line.isEmpty() ? new String[0] : line.split("\t"), null);
            } catch (Throwable why) {
                why.printStackTrace(into);
            } finally {
                System.setOut(stdout);
                System.setErr(stderr);
            }
            Out.event("ran", "words", line, "printed", printed.toString("UTF-8"));
        }
        System.exit(0);
    }
}
