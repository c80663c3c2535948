// Finds, reads about and calls a tool of the demo's sample servers behind a gateway
// that lists only the tools that find tools, with one of the official TypeScript
// clients. Prints one JSON object with all that it saw.
//
// usage: node discover.mjs client-modern|client|sdk URL
const [kind, url] = process.argv.slice(2);
const info = { name: 'causeway-discover-typescript', version: '1.0.0' };
const capabilities = { elicitation: { form: {} } };
const seen = { asked: [], progress: [] };
const answer = request => {
    seen.asked.push(request.params.message);
    return { action: 'accept', content: { confirm: true, room: 'suite', note: '' } };
};

async function connect() {
    if (kind === 'sdk') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
        const client = new Client(info, { capabilities });
        client.setRequestHandler(ElicitRequestSchema, answer);
        const transport = new StreamableHTTPClientTransport(new URL(url));
        await client.connect(transport);
        seen.version = transport.protocolVersion;
        return { client, call: (params, options) => client.callTool(params, undefined, options) };
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const options = kind === 'client-modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {};
    const client = new Client(info, { capabilities, ...options });
    client.setRequestHandler('elicitation/create', answer);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    seen.version = client.getNegotiatedProtocolVersion();
    return { client, call: (params, options) => client.callTool(params, options) };
}

const { client, call } = await connect();
seen.instructions = client.getInstructions();
// The clients check results against the output schemas of listed tools.
seen.listed = (await client.listTools()).tools.map(tool => tool.name);
seen.found = (await call({ name: 'search_tools', arguments: { query: 'reserve a hotel room' } })).structuredContent.results;
const name = seen.found[0].name;
seen.details = (await call({ name: 'get_tool_details', arguments: { names: [name] } })).structuredContent.tools;
seen.upstreams = (await call({ name: 'list_upstreams', arguments: {} })).structuredContent.upstreams.map(upstream => upstream.alias);
const booking = { city: 'Barcelona', checkIn: '2026-06-15', nights: 2 };
seen.booked = (
    await call(
        { name: 'call_tool', arguments: { name, arguments: booking } },
        { onprogress: progress => progress.total && seen.progress.push(progress.progress) }
    )
).structuredContent;
console.log(JSON.stringify(seen));
process.exit(0);
