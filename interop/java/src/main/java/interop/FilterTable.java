package interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * What Apache's own SQL92 evaluator says: lines ["expression", {properties}] in, the same with a third item out: true,
 * false, null, "error" (the evaluation throws) or "refused" (the parser does). With the argument `bloom`: lines
 * [error rate, consumers, "text"] in, the number of bits and the text's positions out.
 * tests/golden/data/filter was made with
 * java -cp 'interop/java/target/classes:interop/java/target/dependency/*' interop.FilterTable < cases
 * (rocketmq-filter 4.9.8; those with CONTAINS and its like with 5.3.1).
 */
public final class FilterTable {
    private FilterTable() {
    }

    public static void main(String[] arguments) throws Exception {
        boolean bloom = arguments.length > 0 && arguments[0].equals("bloom");
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JSONArray row = JSON.parseArray(line);
            if (bloom) {
                BloomFilter filter = BloomFilter.createByFn(row.getIntValue(0), row.getIntValue(1));
                row.add(filter.getM());
                row.add(filter.calcBitPositions(row.getString(2)));
                row.add(Hashing.murmur3_128().hashString(row.getString(2), StandardCharsets.UTF_8).asLong());
            } else {
                row.add(answer(row.getString(0), row.getJSONObject(1)));
            }
            out.append(JSON.toJSONString(row, com.alibaba.fastjson.serializer.SerializerFeature.BrowserCompatible,
                com.alibaba.fastjson.serializer.SerializerFeature.WriteMapNullValue)).append('\n');
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Object answer(String expression, JSONObject properties) {
        BooleanExpression parsed;
        try {
            parsed = SelectorParser.parse(expression);
        } catch (MQFilterException refused) {
            return "refused";
        }
        try {
            return parsed.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.getString(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return Collections.emptyMap();
                }
            });
        } catch (Exception thrown) {
            return "error";
        }
    }
}
