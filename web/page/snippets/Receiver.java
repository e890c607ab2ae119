// A receiver of webhooks, for Java 17 or later. Run it with WEBHOOK_SECRETS="whsec_…" java Receiver.java
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    static final long TOLERANCE = 5 * 60;

    // Several, with spaces between them, while a secret is rotated.
    static final List<byte[]> SECRETS = keys("WEBHOOK_SECRETS", "whsec_");
    static final List<byte[]> PUBLIC_KEYS = keys("WEBHOOK_PUBLIC_KEYS", "whpk_"); // for the scheme v1a only

    static List<byte[]> keys(String variable, String prefix) {
        List<byte[]> all = new ArrayList<>();
        for (String text : Objects.requireNonNullElse(System.getenv(variable), "").trim().split(" +")) {
            if (!text.isEmpty()) all.add(Base64.getDecoder().decode(text.replaceFirst("^" + prefix, "")));
        }
        return all;
    }

    /** Whether a request is from Waybill and not older than five minutes. body is the bytes as they arrived. */
    static boolean verify(String id, String stamp, String signatures, byte[] body, long now) throws GeneralSecurityException {
        if (id == null || stamp == null || signatures == null || !stamp.matches("[0-9]{1,12}")
                || Math.abs(now - Long.parseLong(stamp)) > TOLERANCE) {
            return false;
        }
        byte[] signed = join(id + "." + stamp + ".", body);
        for (String given : signatures.split(" ")) {
            try {
                if (given.startsWith("v1,") && anyMac(Base64.getDecoder().decode(given.substring(3)), signed)) return true;
                if (given.startsWith("v1a,") && anyKey(Base64.getDecoder().decode(given.substring(4)), signed)) return true;
                if (!given.startsWith("v1=")) continue;
                for (String one : given.split(",")) { // the scheme hex: over timestamp.body
                    if (anyMac(HexFormat.of().parseHex(one.replaceFirst("^v1=", "")), join(stamp + ".", body))) return true;
                }
            } catch (IllegalArgumentException e) {
                // neither base64 nor hexadecimal
            }
        }
        return false;
    }

    static boolean anyMac(byte[] given, byte[] signed) throws GeneralSecurityException {
        for (byte[] secret : SECRETS) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            if (MessageDigest.isEqual(mac.doFinal(signed), given)) return true; // in constant time
        }
        return false;
    }

    static boolean anyKey(byte[] given, byte[] signed) throws GeneralSecurityException {
        for (byte[] key : PUBLIC_KEYS) {
            byte[] framed = HexFormat.of().parseHex("302a300506032b6570032100" + HexFormat.of().formatHex(key)); // SPKI
            Signature ed25519 = Signature.getInstance("Ed25519");
            ed25519.initVerify(KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(framed)));
            ed25519.update(signed);
            if (given.length == 64 && ed25519.verify(given)) return true;
        }
        return false;
    }

    static byte[] join(String text, byte[] body) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes(text.getBytes(StandardCharsets.UTF_8));
        all.writeBytes(body);
        return all.toByteArray();
    }

    static void receive(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(1 << 20);
            var headers = exchange.getRequestHeaders();
            int status = 401;
            if (!exchange.getRequestMethod().equals("POST")) {
                status = 405;
            } else if (verify(headers.getFirst("webhook-id"), headers.getFirst("webhook-timestamp"),
                    headers.getFirst("webhook-signature"), body, System.currentTimeMillis() / 1000)) {
                // Store the event under its id here, unless you have it already. Work on it after the answer.
                status = 200;
            }
            exchange.sendResponseHeaders(status, -1);
        } catch (GeneralSecurityException e) {
            exchange.sendResponseHeaders(500, -1);
        }
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(Objects.requireNonNullElse(System.getenv("PORT"), "3000"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/hooks", Receiver::receive);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
