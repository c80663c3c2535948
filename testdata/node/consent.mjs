// Calls a tool for which its user has to sign in first, with the official TypeScript
// client. It prints what the server asks as one JSON line, waits until something comes
// to its input, says that the user agrees, and prints one JSON object with what it saw.
//
// usage: TOKEN=… node consent.mjs URL REVISION TOOL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, revision, tool] = process.argv.slice(2);
const options = revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: revision } } } : {};
const client = new Client({ name: 'causeway-test-consent', version: '1.0.0' }, { capabilities: { elicitation: { url: {} } }, ...options });
const seen = { errors: [], asked: 0 };
client.onerror = error => seen.errors.push(String(error));
client.setRequestHandler('elicitation/create', async request => {
    seen.asked++;
    console.log(JSON.stringify(request.params));
    await new Promise(resolve => process.stdin.once('data', resolve));
    return { action: 'accept' };
});

const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
seen.version = client.getNegotiatedProtocolVersion();
seen.before = (await client.listTools()).tools.map(one => one.name);
seen.content = (await client.callTool({ name: tool, arguments: {} })).content;
console.log(JSON.stringify(seen));
process.exit(0);
