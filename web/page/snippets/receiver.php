<?php
// A receiver of webhooks, for PHP 8. Try it with WEBHOOK_SECRETS="whsec_…" php -S 127.0.0.1:3000 receiver.php

const TOLERANCE = 5 * 60;

/** Several, with spaces between them, while a secret is rotated. */
function keys(string $variable, string $prefix): array
{
    $texts = preg_split('/ +/', getenv($variable) ?: '', -1, PREG_SPLIT_NO_EMPTY);
    return array_map(fn ($text) => base64_decode(preg_replace("/^$prefix/", '', $text), true), $texts);
}

/** Whether a request is from Waybill and not older than five minutes. $body is the bytes as they arrived. */
function verify(string $id, string $stamp, string $signatures, string $body, int $now): bool
{
    if (!preg_match('/^[0-9]{1,12}$/D', $stamp) || abs($now - (int) $stamp) > TOLERANCE) {
        return false;
    }
    $signed = "$id.$stamp.$body";
    foreach (explode(' ', $signatures) as $given) {
        if (str_starts_with($given, 'v1,')) {
            foreach (keys('WEBHOOK_SECRETS', 'whsec_') as $secret) {
                $mac = base64_encode(hash_hmac('sha256', $signed, $secret, true));
                if (hash_equals("v1,$mac", $given)) { // in constant time
                    return true;
                }
            }
        } elseif (str_starts_with($given, 'v1a,')) { // with the extension sodium, which PHP brings along
            $signature = base64_decode(substr($given, 4), true);
            foreach (keys('WEBHOOK_PUBLIC_KEYS', 'whpk_') as $key) {
                if (is_string($signature) && strlen($signature) === 64 && sodium_crypto_sign_verify_detached($signature, $signed, $key)) {
                    return true;
                }
            }
        } elseif (str_starts_with($given, 'v1=')) { // the scheme hex: over timestamp.body
            foreach (explode(',', $given) as $one) {
                foreach (keys('WEBHOOK_SECRETS', 'whsec_') as $secret) {
                    if (hash_equals('v1=' . hash_hmac('sha256', "$stamp.$body", $secret), $one)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

if (($_SERVER['REQUEST_METHOD'] ?? '') !== 'POST' || parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) !== '/hooks') {
    http_response_code(404);
    exit("Nothing is here.\n");
}
$body = file_get_contents('php://input', false, null, 0, 1 << 20); // not $_POST
$header = fn (string $name) => $_SERVER["HTTP_WEBHOOK_$name"] ?? '';
if (!verify($header('ID'), $header('TIMESTAMP'), $header('SIGNATURE'), $body, time())) {
    http_response_code(401);
    exit("The signature does not match.\n");
}
// Store the event under its id here, unless you have it already. Work on it after the answer.
echo "ok\n";
