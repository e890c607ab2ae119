"""A receiver of webhooks. Run it with WEBHOOK_SECRETS="whsec_…" python3 receiver.py"""
import base64
import hashlib
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:  # for the scheme v1a only: pip install cryptography
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey = None

TOLERANCE = 5 * 60


def keys(variable, prefix):
    """Several, with spaces between them, while a secret is rotated."""
    return [base64.b64decode(text.removeprefix(prefix)) for text in os.environ.get(variable, "").split()]


SECRETS = keys("WEBHOOK_SECRETS", "whsec_")
PUBLIC_KEYS = keys("WEBHOOK_PUBLIC_KEYS", "whpk_")


def verify(headers, body, now):
    """Whether a request is from Waybill and not older than five minutes. body is the bytes as they arrived."""
    ident, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(now - int(stamp)) > TOLERANCE:
        return False
    signed = f"{ident}.{stamp}.".encode() + body
    for given in headers.get("webhook-signature", "").split():
        if given.startswith("v1,"):
            for secret in SECRETS:
                mac = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256))
                if hmac.compare_digest(mac, given[3:].encode()):  # in constant time
                    return True
        elif given.startswith("v1a,") and any(matches(key, given[4:], signed) for key in PUBLIC_KEYS):
            return True
        elif given.startswith("v1="):  # the scheme hex: over timestamp.body
            for one in given.split(","):
                for secret in SECRETS:
                    mac = hmac.digest(secret, f"{stamp}.".encode() + body, hashlib.sha256).hex()
                    if hmac.compare_digest(f"v1={mac}".encode(), one.encode()):
                        return True
    return False


def matches(key, signature, signed):
    if Ed25519PublicKey is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature), signed)
        return True
    except Exception:  # another key, or no base64
        return False


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), 1 << 20))
        if self.path != "/hooks":
            return self.answer(404, "Nothing is here.")
        if not verify(self.headers, body, time.time()):
            return self.answer(401, "The signature does not match.")
        # Store the event under its id here, unless you have it already. Work on it after the answer.
        self.answer(200, "ok")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("content-length", str(len(text) + 1))
        self.end_headers()
        self.wfile.write(text.encode() + b"\n")


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Receiver).serve_forever()
