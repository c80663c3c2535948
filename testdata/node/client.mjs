// Uses a gateway in front of the demo's sample servers as an application would,
// with the official TypeScript client, and prints one JSON object with all that
// it saw. The protocol is pinned to 2026-07-28, since the client's default is the
// handshake of older revisions.
//
// usage: node client.mjs URL
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const url = new URL(process.argv[2]);
const seen = { asked: [], progress: [], errors: [] };

const client = new Client(
    { name: 'causeway-test-typescript', version: '1.0.0' },
    {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: { pin: '2026-07-28' } }
    }
);
client.onerror = error => seen.errors.push(String(error));
client.setRequestHandler('elicitation/create', request => {
    seen.asked.push(request.params.message);
    return { action: 'accept', content: { confirm: true, room: 'suite', note: 'späte Ankunft' } };
});

// A change notification settles the promise that waits for it.
const waiting = new Map();
const happens = method => new Promise(resolve => waiting.set(method, resolve));
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
for (const method of ['notifications/tools/list_changed', 'notifications/resources/updated']) {
    client.setNotificationHandler(method, notification => waiting.get(method)?.(notification.params ?? {}));
}

// fails gives the code of the error that a request ends with.
const fails = promise => promise.then(() => null, error => error.code);

await client.connect(new StreamableHTTPClientTransport(url));
seen.version = client.getNegotiatedProtocolVersion();
seen.server = client.getServerVersion();
seen.capabilities = client.getServerCapabilities();
seen.instructions = client.getInstructions();

seen.tools = (await client.listTools()).tools.map(tool => tool.name);
seen.prompts = (await client.listPrompts()).prompts.map(prompt => prompt.name);
seen.resources = (await client.listResources()).resources.map(resource => resource.uri);
seen.templates = (await client.listResourceTemplates()).resourceTemplates.map(template => template.uriTemplate);

// The listed tool mirrors its city into a header and has an output schema, which
// this client checks.
seen.weather = (await client.callTool({ name: 'weather_weatherCurrent', arguments: { city: 'Zürich' } })).structuredContent;
seen.booking = (
    await client.callTool(
        { name: 'travel_bookHotel', arguments: { city: 'Barcelona', checkIn: '2026-06-15', nights: 2 } },
        // Progress without a total is this client's own, about the question.
        { onprogress: progress => progress.total && seen.progress.push(progress) }
    )
).structuredContent;
seen.read = (await client.readResource({ uri: 'travel+travel://preferences/europe' })).contents;
seen.forecast = (await client.readResource({ uri: 'weather+weather://forecast/Paris/2026-06-15' })).contents;
seen.prompt = (await client.getPrompt({ name: 'travel_plan-vacation', arguments: { destination: 'Barcelona' } })).messages;
seen.completions = [
    await client.complete({
        ref: { type: 'ref/resource', uri: 'travel+travel://flights/{origin}/{destination}' },
        argument: { name: 'destination', value: 'Bar' }
    }),
    await client.complete({
        ref: { type: 'ref/resource', uri: 'weather+weather://forecast/{city}/{date}' },
        argument: { name: 'city', value: 'Par' }
    }),
    await client.complete({ ref: { type: 'ref/prompt', name: 'travel_plan-vacation' }, argument: { name: 'duration', value: '1' } })
].map(result => result.completion.values);
seen.unknown = {
    tool: await fails(client.callTool({ name: 'travel_nothing', arguments: {} })),
    resource: await fails(client.readResource({ uri: 'travel+travel://nothing' })),
    prompt: await fails(client.getPrompt({ name: 'nothing' }))
};

// Changes: one listen stream for both kinds. The gateway acknowledges it before the
// upstream knows of it, so the first change may be made too early to be seen: it is
// made again.
const events = 'calendar+calendar://events/2024';
const listening = await client.listen({ toolsListChanged: true, resourceSubscriptions: [events] });
const updated = happens('notifications/resources/updated');
while (!seen.updated) {
    await client.callTool({ name: 'calendar_createCalendarEvent', arguments: { title: 'Trip to Barcelona', startDate: '2024-06-15' } });
    seen.updated = (await Promise.race([updated, pause(2000)]))?.uri;
}
seen.events = (await client.readResource({ uri: events }, { cacheMode: 'refresh' })).contents;

const changed = happens('notifications/tools/list_changed');
await client.callTool({ name: 'calendar_setReminders', arguments: { enabled: true } });
await changed;
seen.toolsAfter = (await client.listTools(undefined, { cacheMode: 'refresh' })).tools.map(tool => tool.name);
await listening.close();
await client.close();
console.log(JSON.stringify(seen));
