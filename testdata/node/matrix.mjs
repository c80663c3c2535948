// Walks through the upstreams of a gateway with one of the official TypeScript
// clients, and prints for each upstream and feature "yes" or why it fails. What to
// do with which upstream is a plan (see gateway/matrix_plan_test.go).
//
// usage: node matrix.mjs client-modern|client|sdk BASE-URL PLANS

const [kind, base, plansText] = process.argv.slice(2);
const plans = JSON.parse(plansText);
const FEATURE_TIMEOUT = 30_000; // of one feature with one upstream
const TRIGGER_AGAIN = 1_000; // a change that was not seen is made again

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
const info = { name: 'causeway-matrix-typescript', version: '1.0.0' };
const capabilities = { elicitation: { form: {} } };
const answer = () => ({ action: 'accept', content: { name: 'Ada' } });

// Each kind gives a client that is connected, with the same few functions.
const kinds = {
    client: (url, events) => connect2(url, events, {}),
    'client-modern': (url, events) => connect2(url, events, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    async sdk(url, events) {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const types = await import('@modelcontextprotocol/sdk/types.js');
        const client = new Client(info, { capabilities });
        client.setRequestHandler(types.ElicitRequestSchema, answer);
        client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => events.changed());
        client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, () => events.updated());
        const transport = new StreamableHTTPClientTransport(new URL(url));
        await client.connect(transport);
        return {
            version: transport.protocolVersion,
            tools: async () => (await client.listTools()).tools,
            call: (params, options) => client.callTool(params, undefined, options),
            subscribe: uri => client.subscribeResource({ uri }),
            hearChanges: async () => {},
            close: async () => {
                await transport.terminateSession();
                await client.close();
            }
        };
    }
};

// connect2 is for both eras of the client package.
async function connect2(url, events, options) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const client = new Client(info, { capabilities, ...options });
    client.setRequestHandler('elicitation/create', answer);
    client.setNotificationHandler('notifications/tools/list_changed', () => events.changed());
    client.setNotificationHandler('notifications/resources/updated', () => events.updated());
    const transport = new StreamableHTTPClientTransport(new URL(url));
    await client.connect(transport);
    const modern = options.versionNegotiation;
    return {
        version: client.getNegotiatedProtocolVersion(),
        tools: async () => (await client.listTools()).tools,
        call: (params, options) => client.callTool(params, options),
        subscribe: uri => (modern ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri })),
        hearChanges: async () => modern && (await client.listen({ toolsListChanged: true })),
        close: async () => {
            if (!modern) await transport.terminateSession();
            await client.close();
        }
    };
}

// connect gives a client and promises of its next events.
async function connect(alias) {
    const waiting = {};
    const events = { changed: () => waiting.changed?.(), updated: () => waiting.updated?.() };
    const client = await kinds[kind](base + alias + '/mcp', events);
    const modern = client.version === '2026-07-28';
    if (modern !== (kind === 'client-modern')) throw new Error(`negotiated ${client.version}`);
    client.next = name => new Promise(resolve => (waiting[name] = resolve));
    return client;
}

async function text(client, use, options) {
    const result = await client.call({ name: use.tool, arguments: use.args }, options);
    const said = result.content.map(block => block.text ?? '').join('');
    if (result.isError) throw new Error(said);
    return said;
}

async function call(client, use, options) {
    const said = await text(client, use, options);
    if (!said.includes(use.want ?? '')) throw new Error(`${use.want} is not in ${said}`);
}

// seen waits for an event, which trigger makes again and again.
async function seen(client, name, trigger) {
    let happened = false;
    const event = client.next(name).then(() => (happened = true));
    while (!happened) {
        await trigger?.();
        await Promise.race([event, pause(TRIGGER_AGAIN)]);
    }
}

const features = {
    async list(client, plan) {
        const names = (await client.tools()).map(tool => tool.name);
        for (const name of plan.tools) if (!names.includes(name)) throw new Error(`${name} is not among ${names}`);
    },
    call: (client, plan) => call(client, plan.call),
    async progress(client, plan) {
        let came = 0;
        await call(client, plan.progress, { onprogress: () => came++ });
        if (!came) throw new Error('no progress came');
    },
    elicitation: (client, plan) => call(client, plan.elicit),
    async 'resource subscribe'(client, { subscribe }) {
        if (subscribe.on) client = await connect(subscribe.on);
        await client.subscribe(subscribe.uri);
        const trigger = () => call(client, subscribe.trigger);
        if (subscribe.undo) {
            const event = client.next('updated');
            await trigger();
            await event;
            await call(client, subscribe.undo);
        } else await seen(client, 'updated', trigger);
        if (subscribe.on) await client.close();
    },
    async 'list change'(client, plan) {
        await client.hearChanges();
        await seen(client, 'changed', () => call(client, plan.change));
    },
    async cancel(client, plan) {
        const count = async () => plan.cancelled && (await text(client, plan.cancelled));
        const before = await count();
        const hanging = text(client, plan.hang, { signal: AbortSignal.timeout(TRIGGER_AGAIN) });
        const end = await hanging.then(() => 'the call ended by itself', () => '');
        if (end) throw new Error(end);
        while (plan.cancelled && (await count()) === before) await pause(20);
        await call(client, plan.call); // the cancellation is out by now
    }
};
const offered = {
    progress: plan => plan.progress,
    elicitation: plan => plan.elicit,
    'resource subscribe': plan => plan.subscribe,
    'list change': plan => plan.change,
    cancel: plan => plan.hang
};

const outcomes = {};
for (const plan of plans) {
    const row = (outcomes[plan.alias] = {});
    let client;
    try {
        client = await connect(plan.alias);
    } catch (error) {
        for (const name in features) row[name] = `connect: ${error}`;
        continue;
    }
    for (const [name, feature] of Object.entries(features)) {
        if (offered[name] && !offered[name](plan)) continue;
        let timer;
        const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('nothing came')), FEATURE_TIMEOUT)));
        row[name] = await Promise.race([feature(client, plan), late]).then(() => 'yes', String);
        clearTimeout(timer);
    }
    await client.close();
}
console.log(JSON.stringify(outcomes));
process.exit(0); // also when something is still waited for
