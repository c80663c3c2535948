// Uses a gateway that asks for access tokens, with the official TypeScript client: it
// finds the authorization server from the 401, registers, has its user log in (by a
// browser that is a loop here), gets a token for the resource and calls a tool. Prints
// one JSON object with all that it saw.
//
// usage: node oauth.mjs URL USER REVISION TOOL
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const [url, user, revision, tool] = process.argv.slice(2);
const seen = { authorizations: [], errors: [] };
const kept = {};

const provider = {
    redirectUrl: 'http://127.0.0.1:9/callback',
    clientMetadata: {
        client_name: 'causeway-test-oauth',
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1:9/callback'],
        grant_types: ['authorization_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none'
    },
    clientInformation: () => kept.client,
    saveClientInformation: client => (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: tokens => (kept.tokens = tokens),
    redirectToAuthorization: at => (kept.at = at),
    saveCodeVerifier: verifier => (kept.verifier = verifier),
    codeVerifier: () => kept.verifier
};

// browse follows redirects as a browser with cookies does, until it is back.
async function browse(at) {
    const cookies = new Map();
    for (let i = 0; i < 20; i++) {
        const cookie = [...cookies].map(pair => pair.join('=')).join('; ');
        const res = await fetch(at, { redirect: 'manual', headers: { cookie } });
        for (const line of res.headers.getSetCookie()) {
            const [pair] = line.split(';');
            const [name, ...value] = pair.split('=');
            value.join('=') === '' ? cookies.delete(name) : cookies.set(name, value.join('='));
        }
        const location = res.headers.get('location');
        if (!location) {
            throw new Error(`${at} answers ${res.status}: ${await res.text()}`);
        }
        at = new URL(location, at);
        if (at.href.startsWith(provider.redirectUrl)) {
            return at.searchParams;
        }
    }
    throw new Error('too many redirects');
}

async function connect() {
    const options = revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: revision } } } : {};
    const client = new Client({ name: 'causeway-test-oauth', version: '1.0.0' }, options);
    client.onerror = error => seen.errors.push(String(error));
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    try {
        await client.connect(transport);
        return client;
    } catch (error) {
        if (!(error instanceof UnauthorizedError) || seen.authorizations.length > 0) {
            throw error;
        }
    }
    const at = new URL(kept.at);
    const asked = Object.fromEntries(at.searchParams);
    seen.authorizations.push({ resource: asked.resource, scope: asked.scope, method: asked.code_challenge_method });
    at.searchParams.set('login_hint', user);
    await transport.finishAuth(await browse(at));
    seen.errors = []; // of the connection that was refused
    return connect();
}

const client = await connect();
seen.version = client.getNegotiatedProtocolVersion();
seen.registered = Boolean(kept.client?.client_id);
const claims = JSON.parse(Buffer.from(kept.tokens.access_token.split('.')[1], 'base64url'));
seen.audience = claims.aud;
seen.subject = claims.sub;
seen.tools = (await client.listTools()).tools.map(one => one.name);
seen.content = (await client.callTool({ name: tool, arguments: {} })).content;
await client.close();
console.log(JSON.stringify(seen));
