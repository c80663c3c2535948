// A real authorization server: oidc-provider with registration (RFC 7591), PKCE and
// resource indicators (RFC 8707), whose access tokens are JWTs (RFC 9068) for the
// resource that was asked for. Whoever comes is logged in as login_hint says, and has
// agreed to everything.
//
// usage: PORT=… node idp.mjs
import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import { Provider } from 'oidc-provider';

const port = Number(process.env.PORT);
const issuer = `http://127.0.0.1:${port}`;
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const provider = new Provider(issuer, {
    cookies: { keys: ['not a secret'] },
    jwks: { keys: [{ ...key, kid: 'k1', use: 'sig', alg: 'ES256' }] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    scopes: ['openid', 'mcp'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: (_, token) => ({ groups: [`of ${token.accountId}`] }),
    features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        resourceIndicators: {
            enabled: true,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, resource) => ({
                scope: 'mcp',
                audience: resource,
                accessTokenFormat: 'jwt',
                accessTokenTTL: 300,
                jwt: { sign: { alg: 'ES256' } }
            })
        }
    },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` }
});

// agree answers what the server asks its user.
async function agree(req, res) {
    const { prompt, params, session } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') {
        const login = { accountId: params.login_hint ?? 'somebody' };
        return provider.interactionFinished(req, res, { login }, { mergeWithLastSubmission: false });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    if (prompt.details.missingOIDCScope) {
        grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
    }
    for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
        grant.addResourceScope(resource, scopes.join(' '));
    }
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
}

const serve = provider.callback();
http.createServer((req, res) => {
    if (!req.url.startsWith('/interaction/')) {
        return serve(req, res);
    }
    agree(req, res).catch(error => res.writeHead(500).end(String(error)));
}).listen(port, '127.0.0.1');
