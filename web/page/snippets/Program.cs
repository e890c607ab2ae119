// A receiver of webhooks, for .NET 8 or later: dotnet new web, put this into Program.cs, WEBHOOK_SECRETS="whsec_…" dotnet run
using System.Globalization;
using System.Security.Cryptography;
using System.Text;

var tolerance = TimeSpan.FromMinutes(5);

// Several, with spaces between them, while a secret is rotated.
var secrets = (Environment.GetEnvironmentVariable("WEBHOOK_SECRETS") ?? "")
    .Split(' ', StringSplitOptions.RemoveEmptyEntries)
    .Select(text => Convert.FromBase64String(text.StartsWith("whsec_") ? text["whsec_".Length..] : text))
    .ToList();

var app = WebApplication.CreateBuilder(args).Build();

app.MapPost("/hooks", async (HttpRequest request) =>
{
    using var buffer = new MemoryStream(); // the bytes as they arrived; no [FromBody], which would parse them
    await request.Body.CopyToAsync(buffer);
    if (!Verify(request.Headers, buffer.ToArray(), DateTimeOffset.UtcNow))
    {
        return Results.Text("The signature does not match.\n", statusCode: 401);
    }
    // Store the event under its id here, unless you have it already. Work on it after the answer.
    return Results.Text("ok\n");
});

app.Run($"http://127.0.0.1:{Environment.GetEnvironmentVariable("PORT") ?? "3000"}");

// Whether a request is from Waybill and not older than five minutes.
bool Verify(IHeaderDictionary headers, byte[] body, DateTimeOffset now)
{
    string id = headers["webhook-id"].ToString(), stamp = headers["webhook-timestamp"].ToString();
    if (stamp.Length > 12 || !long.TryParse(stamp, NumberStyles.None, CultureInfo.InvariantCulture, out var seconds)
        || (now - DateTimeOffset.FromUnixTimeSeconds(seconds)).Duration() > tolerance)
    {
        return false;
    }
    foreach (var given in headers["webhook-signature"].ToString().Split(' '))
    {
        if (given.StartsWith("v1,"))
        {
            var macs = secrets.Select(secret => "v1," + Convert.ToBase64String(Mac(secret, $"{id}.{stamp}.", body)));
            if (macs.Any(mac => Same(mac, given))) return true;
        }
        else if (given.StartsWith("v1=")) // the scheme hex: over timestamp.body
        {
            var macs = secrets.Select(secret => "v1=" + Convert.ToHexString(Mac(secret, $"{stamp}.", body)).ToLowerInvariant()).ToList();
            if (given.Split(',').Any(one => macs.Any(mac => Same(mac, one)))) return true;
        }
        // v1a is Ed25519, which .NET does not have: the package NSec.Cryptography does.
    }
    return false;
}

static byte[] Mac(byte[] secret, string before, byte[] body) =>
    HMACSHA256.HashData(secret, [.. Encoding.UTF8.GetBytes(before), .. body]);

// Compares in constant time.
static bool Same(string one, string other) =>
    CryptographicOperations.FixedTimeEquals(Encoding.ASCII.GetBytes(one), Encoding.ASCII.GetBytes(other));
