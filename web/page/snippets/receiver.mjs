// A receiver of webhooks. Run it with WEBHOOK_SECRETS="whsec_…" node receiver.mjs
import { createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from "node:crypto";
import { createServer } from "node:http";

const tolerance = 5 * 60;

// Several, with spaces between them, while a secret is rotated.
const keys = (variable, prefix) =>
  (process.env[variable] ?? "").split(" ").filter(Boolean).map((text) => Buffer.from(text.replace(prefix, ""), "base64"));

const secrets = keys("WEBHOOK_SECRETS", "whsec_");

// For the scheme v1a only: 32 bytes, put into the frame (SPKI) that Node reads.
const publicKeys = keys("WEBHOOK_PUBLIC_KEYS", "whpk_").map((key) =>
  createPublicKey({ key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key]), format: "der", type: "spki" }));

// Whether a request is from Waybill and not older than five minutes. body is a Buffer of the bytes as they arrived.
function verify(headers, body, now) {
  const id = headers["webhook-id"] ?? "";
  const stamp = headers["webhook-timestamp"] ?? "";
  if (!/^[0-9]+$/.test(stamp) || Math.abs(now / 1000 - Number(stamp)) > tolerance) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${stamp}.`), body]);
  return (headers["webhook-signature"] ?? "").split(" ").some((given) => {
    if (given.startsWith("v1,")) return anyMac(Buffer.from(given.slice(3), "base64"), signed);
    if (given.startsWith("v1a,")) {
      const signature = Buffer.from(given.slice(4), "base64");
      return publicKeys.some((key) => verifySignature(null, signed, key, signature));
    }
    if (!given.startsWith("v1=")) return false; // a scheme to come
    const text = Buffer.concat([Buffer.from(`${stamp}.`), body]); // the scheme hex: over timestamp.body
    return given.split(",").some((one) => anyMac(Buffer.from(one.slice(3), "hex"), text));
  });
}

// Compares in constant time.
function anyMac(given, signed) {
  return secrets.some((secret) => {
    const mac = createHmac("sha256", secret).update(signed).digest();
    return given.length === mac.length && timingSafeEqual(given, mac);
  });
}

const server = createServer(async (request, response) => {
  const answer = (status, text) => response.writeHead(status, { "content-type": "text/plain" }).end(text + "\n");
  if (request.method !== "POST" || request.url !== "/hooks") return answer(404, "Nothing is here.");
  const parts = [];
  let size = 0;
  try {
    for await (const part of request) {
      parts.push(part);
      if ((size += part.length) > 1 << 20) return answer(413, "That is too long.");
    }
  } catch {
    return; // the sender has gone
  }
  // With Express, take express.raw({ type: "application/json" }) on this route: request.body is the Buffer then.
  if (!verify(request.headers, Buffer.concat(parts), Date.now())) return answer(401, "The signature does not match.");
  // Store the event under its id here, unless you have it already. Work on it after the answer.
  answer(200, "ok");
});

server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
