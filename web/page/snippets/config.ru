# frozen_string_literal: true

# A receiver of webhooks, for Rack and Ruby 3.1 or later. Run it with WEBHOOK_SECRETS="whsec_…" rackup --port 3000
require "base64"
require "openssl"

TOLERANCE = 5 * 60

# Several, with spaces between them, while a secret is rotated.
def keys(variable, prefix)
  ENV.fetch(variable, "").split.map { |text| Base64.strict_decode64(text.delete_prefix(prefix)) }
end

SECRETS = keys("WEBHOOK_SECRETS", "whsec_")

# For the scheme v1a only: 32 bytes, put into the frame (SPKI) that OpenSSL reads.
PUBLIC_KEYS = keys("WEBHOOK_PUBLIC_KEYS", "whpk_").map do |key|
  OpenSSL::PKey.read(["302a300506032b6570032100"].pack("H*") + key)
end

# Whether a request is from Waybill and not older than five minutes. body is the bytes as they arrived.
def verify(id, stamp, signatures, body, now)
  return false unless stamp.match?(/\A[0-9]{1,12}\z/) && (now.to_i - stamp.to_i).abs <= TOLERANCE

  signed = "#{id}.#{stamp}.".b + body
  signatures.split.any? do |given|
    if given.start_with?("v1,")
      SECRETS.any? { |secret| same("v1,#{Base64.strict_encode64(OpenSSL::HMAC.digest("SHA256", secret, signed))}", given) }
    elsif given.start_with?("v1a,")
      PUBLIC_KEYS.any? { |key| signed_by(key, given.delete_prefix("v1a,"), signed) }
    elsif given.start_with?("v1=") # the scheme hex: over timestamp.body
      given.split(",").any? do |one|
        SECRETS.any? { |secret| same("v1=#{OpenSSL::HMAC.hexdigest("SHA256", secret, "#{stamp}.".b + body)}", one) }
      end
    end
  end
end

# Compares in constant time.
def same(one, other)
  OpenSSL.secure_compare(one, other)
end

def signed_by(key, text, signed)
  key.verify(nil, Base64.strict_decode64(text), signed)
rescue ArgumentError, OpenSSL::PKey::PKeyError # no base64, or no signature
  false
end

run lambda { |env|
  answer = ->(status, text) { [status, { "content-type" => "text/plain" }, ["#{text}\n"]] }
  next answer.call(404, "Nothing is here.") unless env["REQUEST_METHOD"] == "POST" && env["PATH_INFO"] == "/hooks"

  # In Rails, request.raw_post is the body; skip_forgery_protection for this action.
  body = (env["rack.input"].read(1 << 20) || "").b
  headers = %w[ID TIMESTAMP SIGNATURE].map { |name| env["HTTP_WEBHOOK_#{name}"] || "" }
  next answer.call(401, "The signature does not match.") unless verify(*headers, body, Time.now)

  # Store the event under its id here, unless you have it already. Work on it after the answer.
  answer.call(200, "ok")
}
